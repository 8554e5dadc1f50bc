#include "backend/cpu/attention_block.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/core.h>

#include "backend/cpu/simd.h"
#include "base/error.h"

namespace moesh::backend::cpu {
namespace {

constexpr std::int64_t kBlockRows = 56;  // of scores; a multiple of the widest micro kernel's rows
constexpr std::int64_t kKeyChunk = 256;

// A query sees the keys of its own segment at its own place and before it, the last `window` of them.
struct Sight {
  std::int32_t segment;
  std::int32_t place;
  std::int32_t farthest;  // place

  [[gnu::always_inline]] bool sees(std::int32_t key_segment, std::int32_t key_place) const {
    return (key_segment == segment) & (key_place <= place) & (key_place > farthest);
  }
};

Sight sight_of(std::int32_t segment, std::int32_t place, std::int64_t window) {
  const std::int64_t farthest = std::int64_t{place} - window;
  const bool all = window <= 0 || farthest < std::numeric_limits<std::int32_t>::min();
  return {segment, place, all ? std::numeric_limits<std::int32_t>::min() : static_cast<std::int32_t>(farthest)};
}

// How many heads of queries share one of keys. A device may have neither.
std::int64_t sharing_of(std::int64_t heads, std::int64_t key_heads) {
  if (heads == 0 && key_heads == 0) return 1;
  if (key_heads == 0 || heads % key_heads != 0) {
    fail(fmt::format("{} heads of queries share {} of keys on one device", heads, key_heads), "attention",
         "shard the heads of queries and keys alike");
  }
  return heads / key_heads;
}

template <typename T, bool rounds>
[[gnu::always_inline]] inline Wide<T> rounded_if(std::bool_constant<rounds>, Wide<T> value) {
  return rounds ? rounded<T>(value) : value;
}

}  // namespace

AttentionShape attention_shape(const Shape& query, const Shape& key, const Shape& value) {
  AttentionShape shape;
  shape.rows = query[0];
  shape.queries = query[1];
  shape.keys = key[1];
  shape.heads = query[2];
  shape.key_heads = key[2];
  shape.sharing = sharing_of(shape.heads, shape.key_heads);
  shape.dim = query[3];
  shape.value_dim = value[3];
  shape.block_queries = std::max<std::int64_t>(1, kBlockRows / shape.sharing);
  shape.blocks = (shape.queries + shape.block_queries - 1) / shape.block_queries;
  return shape;
}

template <typename T>
AttentionScores<T>::AttentionScores(const graph::AttentionOf& of, std::span<const View> operands)
    : of_(of), query_(operands[0].as<T>()), key_(operands[1].as<T>()) {
  const std::size_t of_keys = operands.size() >= 7 ? 5 : 3;
  query_order_ = operands[3].as<std::int32_t>();
  query_segments_ = operands[4].as<std::int32_t>();
  key_order_ = operands[of_keys].as<std::int32_t>();
  key_segments_ = operands[of_keys + 1].as<std::int32_t>();
  if (operands.size() % 2 == 0) sinks_ = operands.back().as<T>();
  shape_ = attention_shape(operands[0].shape, operands[1].shape, operands[2].shape);
}

template <typename T>
AttentionBlock AttentionScores<T>::block(std::int64_t row, std::int64_t key_head, std::int64_t index) const {
  AttentionBlock block{row, key_head, index * shape_.block_queries, 0, 0, 0};
  block.queries = std::min(shape_.block_queries, shape_.queries - block.query);
  find_keys(block);
  return block;
}

template <typename T>
void AttentionScores<T>::find_keys(AttentionBlock& block) const {
  const std::int32_t* places = key_order_ + block.row * shape_.keys;
  const std::int32_t* segments = key_segments_ + block.row * shape_.keys;
  std::int64_t first = shape_.keys;
  std::int64_t last = -1;
  for (std::int64_t i = 0; i < block.queries; ++i) {
    const std::int64_t token = block.row * shape_.queries + block.query + i;
    const Sight sight = sight_of(query_segments_[token], query_order_[token], of_.window);
    for (std::int64_t t = 0; t < first; ++t) {
      if (sight.sees(segments[t], places[t])) first = t;
    }
    for (std::int64_t t = shape_.keys - 1; t > last; --t) {
      if (sight.sees(segments[t], places[t])) last = t;
    }
  }
  block.first_key = last < 0 ? 0 : first / kKeyChunk * kKeyChunk;
  block.keys = last + 1 - block.first_key;
}

template <typename T>
OffsetList AttentionScores<T>::query_rows(const AttentionBlock& block, std::int64_t width) const {
  OffsetList offsets;
  for (std::int64_t i = 0; i < block.queries; ++i) {
    for (std::int64_t head = 0; head < shape_.sharing; ++head) offsets.push_back((i * shape_.heads + head) * width);
  }
  return offsets;
}

template <typename T>
void AttentionScores<T>::exponentials(Isa isa, const AttentionBlock& block, W* scores, W* slopes, Row* rows) const {
  const OffsetList only{0};
  const OffsetList dims = steps(shape_.dim, 1);
  const OffsetList query_at_row = query_rows(block, shape_.dim);
  const OffsetList key_at_row = key_rows(block, shape_.dim);
  const OffsetList score_rows = steps(rows_of(block), block.keys);
  const OffsetList score_columns = steps(block.keys, 1);
  multiply<T, T, W>(nullptr, isa, {query_ + query_at(block, shape_.dim), only, query_at_row, dims},
                    {key_ + key_at(block, shape_.dim), only, dims, key_at_row}, {scores, only, score_rows, score_columns});
  for (std::int64_t i = 0; i < rows_of(block); ++i) {
    rows[i] = exponentials_of_row(isa, block, i, scores + i * block.keys, slopes == nullptr ? nullptr : slopes + i * block.keys);
  }
}

// In bfloat16 the scores and the exponentials are rounded to it where they are asked to be, as the reference's are; the
// rest is float32.
template <typename T>
auto AttentionScores<T>::exponentials_of_row(Isa isa, const AttentionBlock& block, std::int64_t index, W* scores,
                                             W* slopes) const -> Row {
  const std::int64_t token = block.row * shape_.queries + block.query + index / shape_.sharing;
  const Sight sight = sight_of(query_segments_[token], query_order_[token], of_.window);
  const std::int32_t* __restrict places = key_order_ + block.row * shape_.keys + block.first_key;
  const std::int32_t* __restrict segments = key_segments_ + block.row * shape_.keys + block.first_key;
  W* __restrict x = scores;
  const std::int64_t keys = block.keys;
  const W scale = static_cast<W>(of_.score_scale);
  const W nothing = -std::numeric_limits<W>::infinity();
  const bool rounds_scores = !of_.float32_scores;
  Row row;
  vectorised(isa, [&]() MOESH_LOOP {
    with_constant(rounds_scores, [&](auto rounds) MOESH_LOOP {
      for (std::int64_t t = 0; t < keys; ++t) x[t] = rounded_if<T>(rounds, x[t] * scale);
    });
  });
  if (of_.soft_cap > 0) {
    const W cap = static_cast<W>(of_.soft_cap);
    for (std::int64_t t = 0; t < keys; ++t) {
      const W bent = std::tanh(x[t] / cap);
      x[t] = rounds_scores ? rounded<T>(bent * cap) : bent * cap;
      if (slopes != nullptr) slopes[t] = 1 - bent * bent;
    }
  }
  vectorised(isa, [&]() MOESH_LOOP {
    for (std::int64_t t = 0; t < keys; ++t) x[t] = sight.sees(segments[t], places[t]) ? x[t] : nothing;
    W largest = largest_of<W>(keys, [&](std::int64_t t) MOESH_LOOP { return x[t]; });
    const W sink = sinks_ == nullptr ? nothing : load(sinks_[block.key_head * shape_.sharing + index % shape_.sharing]);
    largest = sink > largest ? sink : largest;
    if (largest == nothing) largest = 0;
    with_constant(rounds_scores && !of_.float32_softmax, [&](auto rounds) MOESH_LOOP {
      for (std::int64_t t = 0; t < keys; ++t) x[t] = rounded_if<T>(rounds, exp_of(x[t] - largest));
      row.sink = rounded_if<T>(rounds, exp_of(sink - largest));
    });
    row.sum = sum_of<W>(keys, [&](std::int64_t t) MOESH_LOOP { return x[t]; }) + row.sink;
  });
  return row;
}

template class AttentionScores<float>;
template class AttentionScores<bfloat16>;
template class AttentionScores<double>;

}  // namespace moesh::backend::cpu
