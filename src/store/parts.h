// Parts of tensors: where they lie in memory, what two of them share, and in which chunks their bytes go to files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"
#include "sharding/blocks.h"

namespace moesh::store {

using Block = std::vector<sharding::Range>;  // of each dim of a tensor

Block whole_block(const Shape& shape);
std::int64_t elements_of(const Block& block);
std::optional<Block> shared_block(const Block& a, const Block& b);

// One of `count` shares of a block, cut along its longest dim; all together they are the block.
Block share_of(Block block, std::int64_t index, std::int64_t count);

// A part of a tensor in memory.
struct Part {
  Block block;
  DType dtype = DType::float32;
  std::byte* data = nullptr;
  std::vector<std::int64_t> strides;  // in bytes, of each dim
};

// Row by row, without gaps.
Part dense_part(Block block, DType dtype, std::byte* data);

// Where the bytes of a block lie one after the other in a part; null where they do not.
const std::byte* dense_in(const Part& part, const Block& block);

// Copies what two parts of a tensor share and returns how many elements that was. Numbers are rounded where the types differ.
std::int64_t copy_shared(const Part& from, const Part& to);

// The bytes of a dense block, cut into blocks that are dense as well: what is hashed, written and read at once.
class Chunks {
 public:
  static constexpr std::int64_t kMost = 4 << 20;      // bytes of a chunk
  static constexpr std::int64_t kInCache = 256 << 10;  // of the blocks by which a chunk is gone through

  Chunks(Block block, DType dtype, std::int64_t most = kMost);

  std::int64_t count() const { return outer_ * per_outer_; }
  Block block(std::int64_t chunk) const;
  std::int64_t offset(std::int64_t chunk) const;  // in the block's bytes
  std::int64_t bytes(std::int64_t chunk) const;

 private:
  sharding::Range rows(std::int64_t chunk) const;  // of the dim that is cut, from 0 on

  Block block_;
  std::size_t dim_ = 0;          // is cut; those before it go by one index at a time, those behind it are whole
  std::int64_t row_bytes_ = 0;   // of an index of it
  std::int64_t rows_ = 1;        // of a chunk
  std::int64_t outer_ = 1;
  std::int64_t per_outer_ = 1;
};

}  // namespace moesh::store
