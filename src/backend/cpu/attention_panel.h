// Scores [key][column] of a panel of queries, which attention and its gradient share. A column is a query and one of the query heads that
// share a key head; a panel has as many columns as a block of the micro-kernels. So a column's softmax goes down its lane of the vector
// registers.
// Shape suffixes: B rows of the batch, S queries, T keys, H query heads, G key heads, D head dim, V value dim.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <type_traits>

#include "backend/cpu/gemm.h"
#include "backend/cpu/column_softmax.h"
#include "backend/cpu/left_rows.h"
#include "backend/chosen_keys.h"
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

  std::int64_t columns() const { return queries * sharing; }  // of one row of the batch and one key head
};

// Fails if the query heads do not divide evenly among the key heads.
AttentionShape attention_shape(const Shape& query, const Shape& key, const Shape& value);

// The operands are query, key, value, order, segments [, chosen keys] [, sinks] if queries and keys are of the same tokens; otherwise
// query, key, value, query order, query segments, key order, key segments [, chosen keys] [, sinks].
template <typename T>
struct AttentionInputs {
  AttentionInputs(const graph::AttentionOf& of, std::span<const View> operands);  // operands of the forward op

  // The key and the value at a place of a row of the batch, and the offsets of `count` consecutive ones from there.
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
  std::optional<ChosenKeys> chosen;
  const T* sinks = nullptr;
};

template <typename T>
class AttentionPanel {
 public:
  using W = Wide<T>;
  static constexpr int kMostColumns = 32;

  // `count` columns from `first` on, of one row of the batch and one key head.
  AttentionPanel(const AttentionInputs<T>& of, std::int64_t row, std::int64_t key_head, std::int64_t first, std::int64_t count);

  std::int64_t count() const { return count_; }
  Range keys() const { return keys_; }  // outside this range no column sees a key
  bool sees_any(Range keys) const { return keys.begin < keys.end && (keys.begin < unseen_.begin || keys.end > unseen_.end); }
  std::int64_t head(std::int64_t column) const { return heads_[column]; }  // index of the column's head in [B][S][H]
  OffsetList offsets(std::int64_t width) const;  // of the columns' heads, which have `width` elements

  // Turns scores [key][column] of some keys into what the softmax is taken of: scaled, soft-capped, and -inf if the column does not see the
  // key. `slopes` gets the derivative of the soft cap, if there is one and `slopes` is not null. `largest` of each column grows.
  template <int kColumns>
  void finish_scores(Isa isa, Range keys, W* scores, W* slopes, W* largest) const;

  // Online softmax: finishes scores, turns them into exponentials relative to the largest score so far, and adds these to the sums. Returns
  // whether what was summed before, relative to a smaller score, must be multiplied by the factors in `shrink`; the sums already are.
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

  // The softmax before any key: with sinks, the largest score is the sink's, whose exponential is the whole sum.
  void begin_softmax(W* largest, W* sums) const;

  // Writes the columns' largest scores to `to`, [B][S][H].
  void write_highest(const W* largest, float* to) const {
    for (std::int64_t j = 0; j < count_; ++j) to[heads_[j]] = static_cast<float>(largest[j]);
  }

  // Writes results [dim][column] to the columns' heads in `to`, multiplied by the columns' shares if these are not null.
  void write_back(Isa isa, const W* results, std::int64_t columns, std::int64_t dims, const W* shares, T* to) const;

 private:
  // How some keys are seen: columns see those of their segment from their own place back to, but not including, the farthest one.
  struct Sight {
    const std::int32_t* farthest;  // of each column
    std::int32_t most_farthest;
    std::int64_t first = 0;  // key; keys are chosen from there on
    bool is_sparse = false;
  };

  void find_keys();
  Range seen_of(Range keys, std::int32_t least_farthest) const;
  // Whether all columns see a key of this segment and place.
  bool is_seen_by_all(const Sight& sight, std::int32_t segment, std::int32_t place) const {
    return least_segment_ == most_segment_ && segment == least_segment_ && place <= least_place_ && place > sight.most_farthest;
  }
  template <int kColumns>
  void finish_part(Isa isa, const Sight& sight, Range keys, W scale, W* scores, W* largest) const;
#if defined(__x86_64__)
  template <bool kIsSparse>
  [[gnu::target("avx512f")]] void scale_and_hide_32(const Sight& sight, Range keys, float scale, float* scores, float* largest) const;
  void take_words(int first, std::int64_t word, std::int32_t* to) const;  // of the keys chosen for sixteen columns
#endif
  // Sets the scores of keys that are not chosen to -inf.
  template <int kColumns>
  void hide_unchosen(Isa isa, const Sight& sight, Range keys, W* scores) const;

  const AttentionInputs<T>& of_;
  std::int64_t row_, count_;
  Range keys_{0, 0};
  Range unseen_;  // keys within keys_ that no column sees, between the nearest ones and the pools
  std::int64_t heads_[kMostColumns];
  std::int32_t segments_[kMostColumns], places_[kMostColumns], farthest_[kMostColumns];
  std::int32_t least_segment_, most_segment_, least_place_, most_place_, least_farthest_, most_farthest_;
};

// Runs Kernel<T, S, E>(call, isa). Scores are GEMMs of operands packed as S; GEMMs that involve exponentials take operands packed as E.
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

// The largest number of bytes that any of these types takes; float64 does not count, as it is only for tests. `bytes` is called as
// bytes.template operator()<T, S, E>(isa).
template <typename Bytes>
std::int64_t most_bytes(const Bytes& bytes) {
  const Isa isa = chosen_isa();
  const std::int64_t wide = bytes.template operator()<float, float, float>(isa);
  if (!packs_bfloat16(isa)) return wide;
  return std::max(
      {wide, bytes.template operator()<bfloat16, bfloat16, bfloat16>(isa), bytes.template operator()<bfloat16, bfloat16, float>(isa)});
}

}  // namespace moesh::backend::cpu
