// Scores of a panel of queries, keys by columns: what attention and its gradient share. A column is a query and one of the heads that
// read a key head; a panel has as many as a block of the micro kernels. So a column's softmax goes down its lane of the registers.
// Shape suffixes: B rows of the batch, S queries, T keys, H query heads, G key heads, D head dim, V value dim.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include "backend/cpu/gemm.h"
#include "backend/cpu/column_softmax.h"
#include "backend/cpu/left_rows.h"
#include "backend/cpu/simd.h"
#include "backend/kernel.h"

namespace moesh::backend::cpu {

struct AttentionShape {
  std::int64_t rows = 0;       // B
  std::int64_t queries = 0;    // S
  std::int64_t keys = 0;       // T
  std::int64_t heads = 0;      // H
  std::int64_t key_heads = 0;  // G
  std::int64_t sharing = 0;    // H / G: query heads that read one key head
  std::int64_t dim = 0;        // D
  std::int64_t value_dim = 0;  // V

  std::int64_t columns() const { return queries * sharing; }  // of a row of the batch and a key head
};

// Refuses heads that do not share alike.
AttentionShape attention_shape(const Shape& query, const Shape& key, const Shape& value);

// Operands are query, key, value, order, segments [, sinks] where queries and keys are of the same tokens; else query,
// key, value, query order, query segments, key order, key segments [, sinks].
template <typename T>
struct AttentionInputs {
  AttentionInputs(const graph::AttentionOf& of, std::span<const View> operands);  // those of the forward op

  // The key and value at a place of a row, and the steps from there to those that follow.
  const T* key_at(std::int64_t row, std::int64_t key_head, std::int64_t place) const { return key + at(row, key_head, place) * shape.dim; }
  const T* value_at(std::int64_t row, std::int64_t key_head, std::int64_t place) const {
    return value + at(row, key_head, place) * shape.value_dim;
  }
  OffsetList key_offsets(std::int64_t count) const { return steps(count, shape.key_heads * shape.dim); }
  OffsetList value_offsets(std::int64_t count) const { return steps(count, shape.key_heads * shape.value_dim); }
  std::int64_t at(std::int64_t row, std::int64_t key_head, std::int64_t place) const {
    return (row * shape.keys + place) * shape.key_heads + key_head;
  }

  graph::AttentionOf of;
  AttentionShape shape;
  const T* query;
  const T* key;
  const T* value;
  const std::int32_t* query_order;
  const std::int32_t* query_segments;
  const std::int32_t* key_order;
  const std::int32_t* key_segments;
  const T* sinks = nullptr;
};

template <typename T>
class AttentionPanel {
 public:
  using W = Wide<T>;
  static constexpr int kMostColumns = 32;

  // The columns from `first` on, of a row of the batch and a key head.
  AttentionPanel(const AttentionInputs<T>& of, std::int64_t row, std::int64_t key_head, std::int64_t first, std::int64_t count);

  std::int64_t count() const { return count_; }
  Range keys() const { return keys_; }  // beyond which no column sees any
  std::int64_t head(std::int64_t column) const { return heads_[column]; }  // which of all queries' heads [B][S][H]
  OffsetList offsets(std::int64_t width) const;  // of the columns' heads of so many elements

  // Scores [key][column] of some keys become what the softmax is taken of: scaled, bent, and -inf where a key is not seen. `slopes`,
  // where there is a soft cap and it is not null, gets the cap's derivative. `largest` of each column grows.
  template <int kColumns>
  void finish_scores(Isa isa, Range keys, W* scores, W* slopes, W* largest) const;

  // Finishes scores and makes them exponentials above the largest so far, which are added to the sums. Whether what was
  // summed before, above a smaller one, is to shrink by the factors of `shrink`; the sums have shrunk.
  template <int kColumns, typename E>
  bool soften(Isa isa, Range keys, W* scores, E* exponentials, W* largest, W* sums, W* shrink) const {
    W before[kColumns], base[kColumns];
    std::copy_n(largest, kColumns, before);
    finish_scores<kColumns>(isa, keys, scores, nullptr, largest);
    bool shrinks = false;
    vectorised(isa, [&]() MOESH_LOOP {
      for (int j = 0; j < kColumns; ++j) {
        base[j] = base_of(largest[j]);
        shrink[j] = before[j] == largest[j] ? W(1) : exp_of(before[j] - base[j]);
        sums[j] *= shrink[j];
      }
    });
    for (int j = 0; j < kColumns; ++j) shrinks = shrinks || shrink[j] != 1;
    exponentiate<kColumns>(isa, keys.size(), base, scores, exponentials, sums);
    return shrinks;
  }

  // Without keys: the largest is the sink's score, whose exponential is all of the sum.
  void begin_softmax(W* largest, W* sums) const;

  // Results [dim][column] to the columns' heads of `to`, times the columns' shares where these are not null.
  void hand_over(Isa isa, const W* results, std::int64_t columns, std::int64_t dims, const W* shares, T* to) const;

 private:
  void find_keys();
  // A key.
  bool is_seen_by_all(std::int32_t segment, std::int32_t place) const {
    return least_segment_ == most_segment_ && segment == least_segment_ && place <= least_place_ && place > most_farthest_;
  }
  void scale_and_hide_32(Range keys, float scale, float* scores, float* largest) const;  // with AVX-512
  void bend(W* scores, W* slopes, std::int64_t count) const;

  const AttentionInputs<T>& of_;
  std::int64_t row_, count_;
  Range keys_{0, 0};
  std::int64_t heads_[kMostColumns];
  // A column sees the keys of its segment at its own place and before it, back to the farthest one.
  std::int32_t segments_[kMostColumns], places_[kMostColumns], farthest_[kMostColumns];
  std::int32_t least_segment_, most_segment_, least_place_, most_place_, least_farthest_, most_farthest_;
};

// Runs Kernel<T, S, E>(call, isa): scores are products of operands packed as S; those with exponentials take operands packed as E.
template <template <typename, typename, typename> typename Kernel>
void run_in_types(const KernelCall& call) {
  const Isa isa = chosen_isa();
  for_floating(call.results[0].dtype, [&]<typename T>() {
    if constexpr (std::is_same_v<T, bfloat16>) {
      if (packs_bfloat16(isa)) {
        if (!std::get<graph::AttentionOf>(call.attributes).float32_softmax)
          return Kernel<T, bfloat16, bfloat16>(call, isa).run(call.workers);
        return Kernel<T, bfloat16, float>(call, isa).run(call.workers);
      }
    }
    Kernel<T, Wide<T>, Wide<T>>(call, isa).run(call.workers);
  });
}

// What the greediest of these takes; float64 is for tests. `bytes`: called as bytes.template operator()<T, S, E>(isa).
template <typename Bytes>
std::int64_t most_bytes(const Bytes& bytes) {
  const Isa isa = chosen_isa();
  const std::int64_t wide = bytes.template operator()<float, float, float>(isa);
  if (!packs_bfloat16(isa)) return wide;
  return std::max(
      {wide, bytes.template operator()<bfloat16, bfloat16, bfloat16>(isa), bytes.template operator()<bfloat16, bfloat16, float>(isa)});
}

}  // namespace moesh::backend::cpu
