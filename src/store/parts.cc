#include "store/parts.h"

#include <algorithm>
#include <cassert>

#include "backend/element.h"
#include "base/bytes.h"
#include "base/rounding.h"

namespace moesh::store {
namespace {

using sharding::Range;

const std::byte* at(const Part& part, const Block& block) {
  const std::byte* data = part.data;
  for (std::size_t dim = 0; dim < block.size(); ++dim) data += (block[dim].begin - part.block[dim].begin) * part.strides[dim];
  return data;
}

template <typename Element>
void copy_each(const std::byte* from, std::int64_t from_stride, std::byte* to, std::int64_t to_stride, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) copy_bytes(to + i * to_stride, from + i * from_stride, sizeof(Element));
}

// Copies one row of elements; strides are in bytes.
void copy_row(const std::byte* from, std::int64_t from_stride, DType from_dtype, std::byte* to, std::int64_t to_stride, DType to_dtype,
              std::int64_t count) {
  const std::int64_t size = size_of(from_dtype);
  if (from_dtype == to_dtype) {
    if (from_stride == size && to_stride == size) return copy_bytes(to, from, count * size);
    switch (size) {
      case 1: return copy_each<std::uint8_t>(from, from_stride, to, to_stride, count);
      case 2: return copy_each<std::uint16_t>(from, from_stride, to, to_stride, count);
      case 4: return copy_each<std::uint32_t>(from, from_stride, to, to_stride, count);
      default: return copy_each<std::uint64_t>(from, from_stride, to, to_stride, count);
    }
  }
  backend::for_floating(from_dtype, [&]<typename From>() {
    backend::for_floating(to_dtype, [&]<typename To>() {
      for (std::int64_t i = 0; i < count; ++i) {
        From value;
        copy_bytes(&value, from + i * from_stride, sizeof value);
        const To rounded = backend::store<To>(backend::load(value));
        copy_bytes(to + i * to_stride, &rounded, sizeof rounded);
      }
    });
  });
}

struct Copy {
  const Block& block;
  const Part& from;
  const Part& to;

  void run(std::size_t dim, const std::byte* source, std::byte* target) const {
    const std::int64_t count = block[dim].size();
    if (dim + 1 == block.size()) {
      copy_row(source, from.strides[dim], from.dtype, target, to.strides[dim], to.dtype, count);
      return;
    }
    for (std::int64_t i = 0; i < count; ++i) run(dim + 1, source + i * from.strides[dim], target + i * to.strides[dim]);
  }
};

}  // namespace

Block whole_block(const Shape& shape) {
  Block block;
  for (const std::int64_t size : shape) block.push_back({0, size});
  return block;
}

std::int64_t elements_of(const Block& block) { return elements(sharding::shape_of(block)); }

Block share_of(Block block, std::int64_t index, std::int64_t count) {
  const auto longest = std::max_element(block.begin(), block.end(), [](const Range& a, const Range& b) { return a.size() < b.size(); });
  if (longest == block.end()) {
    if (index > 0) block = {{0, 0}};  // a scalar cannot be cut: the first share has it
    return block;
  }
  const Range all = *longest;
  *longest = {all.begin + all.size() * index / count, all.begin + all.size() * (index + 1) / count};
  return block;
}

std::optional<Block> shared_block(const Block& a, const Block& b) {
  Block shared;
  for (std::size_t dim = 0; dim < a.size(); ++dim) {
    shared.push_back({std::max(a[dim].begin, b[dim].begin), std::min(a[dim].end, b[dim].end)});
    if (shared.back().size() <= 0) return std::nullopt;
  }
  return shared;
}

Part dense_part(Block block, DType dtype, std::byte* data) {
  Part part{std::move(block), dtype, data, {}};
  part.strides.resize(part.block.size());
  std::int64_t stride = size_of(dtype);
  for (std::size_t dim = part.block.size(); dim-- > 0;) {
    part.strides[dim] = stride;
    stride *= part.block[dim].size();
  }
  return part;
}

const std::byte* dense_in(const Part& part, const Block& block) {
  const Part dense = dense_part(block, part.dtype, nullptr);
  for (std::size_t dim = 0; dim < block.size(); ++dim) {
    if (block[dim].begin < part.block[dim].begin || block[dim].end > part.block[dim].end) return nullptr;
    if (block[dim].size() > 1 && part.strides[dim] != dense.strides[dim]) return nullptr;
  }
  return at(part, block);
}

std::int64_t copy_shared(const Part& from, const Part& to) {
  assert(from.block.size() == to.block.size());
  const std::optional<Block> shared = shared_block(from.block, to.block);
  if (!shared) return 0;
  auto* target = const_cast<std::byte*>(at(to, *shared));
  if (shared->empty()) copy_row(from.data, 0, from.dtype, target, 0, to.dtype, 1);
  else Copy{*shared, from, to}.run(0, at(from, *shared), target);
  return elements_of(*shared);
}

Chunks::Chunks(Block block, DType dtype, std::int64_t most) : block_(std::move(block)) {
  row_bytes_ = elements_of(block_) * size_of(dtype);
  if (row_bytes_ == 0) {
    per_outer_ = 0;
    return;
  }
  for (dim_ = 0; dim_ < block_.size(); ++dim_) {
    row_bytes_ /= block_[dim_].size();
    if (row_bytes_ <= most) break;
    outer_ *= block_[dim_].size();
  }
  if (block_.empty()) return;
  rows_ = std::clamp<std::int64_t>(most / row_bytes_, 1, block_[dim_].size());
  per_outer_ = divide_up(block_[dim_].size(), rows_);
}

Range Chunks::rows(std::int64_t chunk) const {
  const std::int64_t begin = chunk % per_outer_ * rows_;
  return {begin, block_.empty() ? 1 : std::min(begin + rows_, block_[dim_].size())};
}

Block Chunks::block(std::int64_t chunk) const {
  Block block = block_;
  if (block.empty()) return block;
  std::int64_t outer = chunk / per_outer_;
  for (std::size_t dim = dim_; dim-- > 0;) {
    const std::int64_t size = block_[dim].size();
    block[dim].begin += outer % size;
    block[dim].end = block[dim].begin + 1;
    outer /= size;
  }
  const Range cut = rows(chunk);
  block[dim_] = {block_[dim_].begin + cut.begin, block_[dim_].begin + cut.end};
  return block;
}

std::int64_t Chunks::offset(std::int64_t chunk) const {
  const std::int64_t size = block_.empty() ? 1 : block_[dim_].size();
  return (chunk / per_outer_ * size + rows(chunk).begin) * row_bytes_;
}

std::int64_t Chunks::bytes(std::int64_t chunk) const { return rows(chunk).size() * row_bytes_; }

}  // namespace moesh::store
