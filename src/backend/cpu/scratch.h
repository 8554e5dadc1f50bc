// Scratch memory of kernels, which each thread keeps from call to call: fresh pages cost more than the work on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "backend/cpu/cache_line.h"
#include "base/pages.h"
#include "base/rounding.h"

namespace moesh::backend::cpu {

class Scratch {
 public:
  // At least `count` elements, aligned to a cache line, with unspecified contents.
  template <typename T>
  T* of(std::int64_t count) {
    reserve(count * static_cast<std::int64_t>(sizeof(T)));
    return reinterpret_cast<T*>(data_.get());
  }

 private:
  void reserve(std::int64_t bytes) {
    if (bytes <= bytes_) return;
    data_.reset();
    bytes_ = 0;
    data_ = take_pages(bytes);
    if (data_ == nullptr) throw std::bad_alloc();
    ask_for_huge_pages(data_.get(), bytes_of_pages(bytes));
    bytes_ = bytes;
  }

  std::shared_ptr<std::byte> data_;
  std::int64_t bytes_ = 0;
};

// The scratch memory of a thread, taken piece by piece; if it begins at null, its bytes are only counted.
class Pieces {
 public:
  explicit Pieces(std::byte* begin) : begin_(begin) {}

  template <typename T>
  T* take(std::int64_t count) {
    const std::int64_t at = bytes_;
    bytes_ += round_up(count * static_cast<std::int64_t>(sizeof(T)), kCacheLineBytes);
    return begin_ == nullptr ? nullptr : reinterpret_cast<T*>(begin_ + at);
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::byte* begin_;
  std::int64_t bytes_ = 0;
};

}  // namespace moesh::backend::cpu
