#include "run/array.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>

#include <fmt/core.h>

#include "base/error.h"

namespace moesh::run {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t rounded(std::size_t bytes) {
  return std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
}

// What is really taken from the machine: one of eight sizes between powers of two, so that values whose rows vary from step to
// step find a buffer that another one left.
std::size_t capacity_for(std::size_t size) {
  const std::size_t step = std::max(kAlignment, std::bit_floor(size) / 8);
  return (size + step - 1) / step * step;
}

}  // namespace

Pool::~Pool() {
  for (const auto& [size, buffers] : free_) {
    for (void* buffer : buffers) std::free(buffer);
  }
}

Array Pool::allocate(Shape shape, DType dtype) {
  const std::size_t size = rounded(static_cast<std::size_t>(elements(shape) * size_of(dtype)));
  const std::size_t capacity = capacity_for(size);
  void* buffer = nullptr;
  {
    const std::lock_guard lock(mutex_);
    live_ += size;
    peak_ = std::max(peak_, live_);
    std::vector<void*>& fitting = free_[capacity];
    if (!fitting.empty()) {
      buffer = fitting.back();
      fitting.pop_back();
    }
  }
  static std::byte nowhere;
  if (only_counts_) buffer = &nowhere;
  if (buffer == nullptr) buffer = std::aligned_alloc(kAlignment, capacity);
  if (buffer == nullptr) throw std::bad_alloc();
  auto storage = std::shared_ptr<void>(buffer, [pool = shared_from_this(), size](void* b) { pool->give_back(b, size); });
  return {std::move(storage), View{buffer, dtype, std::move(shape)}};
}

void Pool::give_back(void* buffer, std::size_t size) {
  const std::lock_guard lock(mutex_);
  live_ -= size;
  if (!only_counts_) free_[capacity_for(size)].push_back(buffer);
}

Array reshaped(const Array& array, Shape shape) {
  if (elements(shape) != array.view.count()) {
    fail(fmt::format("{} seen as {}, which has other many elements", to_string(array.view.shape), to_string(shape)));
  }
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
