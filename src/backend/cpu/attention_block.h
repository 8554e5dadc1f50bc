// Probabilities of a block of queries, which attention and its gradient share.
// Shape suffixes: B rows of the batch, S queries, T keys, H query heads, G key heads, D head dim, V value dim.
#pragma once

#include <cstdint>
#include <span>

#include "backend/cpu/gemm.h"
#include "backend/cpu/scratch.h"
#include "backend/kernel.h"

namespace moesh::backend::cpu {

// Operands are query, key, value, order, segments [, sinks] where queries and keys are of the same tokens; else query,
// key, value, query order, query segments, key order, key segments [, sinks].
struct AttentionShape {
  std::int64_t rows = 0;           // B
  std::int64_t queries = 0;        // S
  std::int64_t keys = 0;           // T
  std::int64_t heads = 0;          // H
  std::int64_t key_heads = 0;      // G
  std::int64_t sharing = 0;        // H / G: query heads that read one key head
  std::int64_t dim = 0;            // D
  std::int64_t value_dim = 0;      // V
  std::int64_t block_queries = 0;  // of a block; it has `sharing` rows of scores for each
  std::int64_t blocks = 0;         // that a row of the batch has
};

// Refuses heads that do not share alike.
AttentionShape attention_shape(const Shape& query, const Shape& key, const Shape& value);

// A block of queries of one row of the batch and one key head, and the keys that at least one of them sees. Its rows of
// scores are [query][head that shares the key head].
struct AttentionBlock {
  std::int64_t row = 0;
  std::int64_t key_head = 0;
  std::int64_t query = 0;
  std::int64_t queries = 0;
  std::int64_t first_key = 0;  // a multiple of the products' chunks, so that sums over keys have one order
  std::int64_t keys = 0;
};

template <typename T>
class AttentionScores {
 public:
  using W = Wide<T>;

  // `operands`: those of the forward op.
  AttentionScores(const graph::AttentionOf& of, std::span<const View> operands);

  const AttentionShape& shape() const { return shape_; }
  AttentionBlock block(std::int64_t row, std::int64_t key_head, std::int64_t index) const;
  std::int64_t rows_of(const AttentionBlock& block) const { return block.queries * shape_.sharing; }

  // Where things of a block begin, and their elements' offsets from there.
  std::int64_t query_at(const AttentionBlock& block, std::int64_t width) const {
    return ((block.row * shape_.queries + block.query) * shape_.heads + block.key_head * shape_.sharing) * width;
  }
  std::int64_t key_at(const AttentionBlock& block, std::int64_t width) const {
    return ((block.row * shape_.keys + block.first_key) * shape_.key_heads + block.key_head) * width;
  }
  OffsetList query_rows(const AttentionBlock& block, std::int64_t width) const;
  OffsetList key_rows(const AttentionBlock& block, std::int64_t width) const {
    return steps(block.keys, shape_.key_heads * width);
  }

  // One row's share of the softmax.
  struct Row {
    W sum = 0;   // of all exponentials, the sink's too; 0 when the row sees nothing
    W sink = 0;  // the sink's exponential
  };

  // Exponentials [rows][keys], not yet divided by their row's sum. `slopes`, where there is a soft cap and it is not null,
  // gets the cap's derivative at each score.
  void exponentials(Isa isa, const AttentionBlock& block, W* scores, W* slopes, Row* rows) const;

 private:
  void find_keys(AttentionBlock& block) const;
  Row exponentials_of_row(Isa isa, const AttentionBlock& block, std::int64_t index, W* scores, W* slopes) const;

  graph::AttentionOf of_;
  AttentionShape shape_;
  const T* query_;
  const T* key_;
  const std::int32_t* query_order_;
  const std::int32_t* query_segments_;
  const std::int32_t* key_order_;
  const std::int32_t* key_segments_;
  const T* sinks_ = nullptr;
};

}  // namespace moesh::backend::cpu
