#include "run/array.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>

#include <sys/mman.h>

#include <fmt/core.h>

#include "base/bytes.h"
#include "base/error.h"

namespace moesh::run {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kPage = 4096;
// Buffers of at least this size are mappings of their own, which return to the system when they are released; malloc would keep
// them, and holes between them. Smaller buffers come from malloc.
constexpr std::size_t kMapped = 4 * kPage;

std::size_t rounded(std::size_t bytes) {
  return std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
}

// The capacity that is really taken from the machine: one of eight sizes between powers of two, so that values whose number of rows
// varies from step to step can reuse buffers that others left.
std::size_t capacity_for(std::size_t size) {
  const std::size_t step = std::max(size < kMapped ? kAlignment : kPage, std::bit_floor(size) / 8);
  return (size + step - 1) / step * step;
}

void* new_buffer(std::size_t capacity) {
  if (capacity < kMapped) return std::aligned_alloc(kAlignment, capacity);
  void* mapped = mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return mapped == MAP_FAILED ? nullptr : mapped;
}

void delete_buffer(void* buffer, std::size_t capacity) {
  if (capacity < kMapped) {
    std::free(buffer);
  } else {
    munmap(buffer, capacity);
  }
}

}  // namespace

Pool::~Pool() {
  while (!free_.empty()) release_oldest();
}

Array Pool::allocate(Shape shape, DType dtype) {
  const std::size_t size = rounded(static_cast<std::size_t>(elements(shape) * size_of(dtype)));
  const std::size_t capacity = capacity_for(size);
  void* buffer = nullptr;
  {
    const std::lock_guard lock(mutex_);
    live_ += size;
    peak_ = std::max(peak_, live_);
    taken_ += capacity;
    peak_taken_ = std::max(peak_taken_, taken_);
    buffer = take(capacity);
    if (buffer == nullptr) {
      live_ -= size;
      taken_ -= capacity;
      throw std::bad_alloc();
    }
  }
  auto storage = std::shared_ptr<void>(buffer, [pool = shared_from_this(), size](void* b) { pool->give_back(b, size); });
  return {std::move(storage), View{buffer, dtype, std::move(shape)}};
}

void* Pool::take(std::size_t capacity) {
  const auto fitting = free_.find(capacity);
  if (fitting != free_.end()) {
    void* buffer = fitting->second.back().buffer;
    fitting->second.pop_back();
    if (fitting->second.empty()) free_.erase(fitting);
    return buffer;
  }
  while (held_ + capacity > peak_taken_ && !free_.empty()) release_oldest();
  void* buffer = new_buffer(capacity);
  if (buffer != nullptr) held_ += capacity;
  return buffer;
}

void Pool::release_oldest() {
  const auto oldest = std::min_element(free_.begin(), free_.end(), [](const auto& a, const auto& b) {
    return a.second.front().since < b.second.front().since;
  });
  delete_buffer(oldest->second.front().buffer, oldest->first);
  held_ -= oldest->first;
  oldest->second.pop_front();
  if (oldest->second.empty()) free_.erase(oldest);
}

void Pool::give_back(void* buffer, std::size_t size) {
  const std::lock_guard lock(mutex_);
  const std::size_t capacity = capacity_for(size);
  live_ -= size;
  taken_ -= capacity;
  free_[capacity].push_back({buffer, given_back_++});
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
  copy_bytes(copy.view.data, array.view.data, array.bytes());
  return copy;
}

}  // namespace moesh::run
