#include "run/array.h"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <cstring>
#include <new>

namespace moesh::run {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t rounded(std::size_t bytes) {
  return std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
}

}  // namespace

Pool::~Pool() {
  for (const auto& [size, buffers] : free_) {
    for (void* buffer : buffers) std::free(buffer);
  }
}

Array Pool::allocate(Shape shape, DType dtype) {
  const std::size_t size = rounded(static_cast<std::size_t>(elements(shape) * size_of(dtype)));
  void* buffer = nullptr;
  {
    const std::lock_guard lock(mutex_);
    live_ += size;
    peak_ = std::max(peak_, live_);
    std::vector<void*>& same_size = free_[size];
    if (!same_size.empty()) {
      buffer = same_size.back();
      same_size.pop_back();
    }
  }
  static std::byte nowhere;
  if (only_counts_) buffer = &nowhere;
  if (buffer == nullptr) buffer = std::aligned_alloc(kAlignment, size);
  if (buffer == nullptr) throw std::bad_alloc();
  auto storage = std::shared_ptr<void>(buffer, [pool = shared_from_this(), size](void* b) { pool->give_back(b, size); });
  return {std::move(storage), View{buffer, dtype, std::move(shape)}};
}

void Pool::give_back(void* buffer, std::size_t size) {
  const std::lock_guard lock(mutex_);
  live_ -= size;
  if (!only_counts_) free_[size].push_back(buffer);
}

Array reshaped(const Array& array, Shape shape) {
  assert(elements(shape) == array.view.count());
  Array seen = array;
  seen.view.shape = std::move(shape);
  return seen;
}

Array copy_of(const Array& array, Pool& pool) {
  Array copy = pool.allocate(array.view.shape, array.view.dtype);
  if (!pool.only_counts()) std::memcpy(copy.view.data, array.view.data, static_cast<std::size_t>(array.bytes()));
  return copy;
}

}  // namespace moesh::run
