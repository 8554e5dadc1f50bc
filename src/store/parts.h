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

using Block = std::vector<sharding::Range>;  // the range of each dim of a tensor

Block whole_block(const Shape& shape);
std::int64_t elements_of(const Block& block);
std::optional<Block> shared_block(const Block& a, const Block& b);

// One of `count` shares of a block, which is cut along its longest dim; all shares together are the block.
Block share_of(Block block, std::int64_t index, std::int64_t count);

// A part of a tensor in memory.
struct Part {
  Block block;
  DType dtype = DType::float32;
  std::byte* data = nullptr;
  std::vector<std::int64_t> strides;  // in bytes, of each dim
};

// Row-major, without gaps.
Part dense_part(Block block, DType dtype, std::byte* data);

// The address of a block's bytes if they are contiguous in a part, else null.
const std::byte* dense_in(const Part& part, const Block& block);

// Copies what two parts of a tensor share, and returns the number of elements. Numbers are rounded if the types differ.
std::int64_t copy_shared(const Part& from, const Part& to);

// Cuts the bytes of a dense block into blocks that are dense as well: the units that are hashed, written and read.
class Chunks {
 public:
  static constexpr std::int64_t kMost = 4 << 20;      // bytes per chunk
  static constexpr std::int64_t kInCache = 256 << 10;  // bytes per block when a chunk is processed block by block, to stay in the cache

  Chunks(Block block, DType dtype, std::int64_t most = kMost);

  std::int64_t count() const { return outer_ * per_outer_; }
  Block block(std::int64_t chunk) const;
  std::int64_t offset(std::int64_t chunk) const;  // in bytes from the start of the block
  std::int64_t bytes(std::int64_t chunk) const;

 private:
  sharding::Range rows(std::int64_t chunk) const;  // of the dim that is cut, counted from 0

  Block block_;
  std::size_t dim_ = 0;          // the dim that is cut; earlier dims are cut into single indices, later ones stay whole
  std::int64_t row_bytes_ = 0;   // per index of the cut dim
  std::int64_t rows_ = 1;        // indices of the cut dim per chunk
  std::int64_t outer_ = 1;
  std::int64_t per_outer_ = 1;
};

}  // namespace moesh::store
