// Working memory of kernels, kept by each thread from call to call: fresh pages cost more than the work on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

namespace moesh::backend::cpu {

class Scratch {
 public:
  Scratch() = default;
  ~Scratch() { release(); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // At least `count` elements, on a cache line; what they hold is open.
  template <typename T>
  T* of(std::int64_t count) {
    reserve(static_cast<std::size_t>(count) * sizeof(T));
    return static_cast<T*>(data_);
  }

 private:
  static constexpr std::align_val_t kLine{64};

  void reserve(std::size_t bytes) {
    if (bytes <= bytes_) return;
    release();
    data_ = ::operator new(bytes, kLine);
    bytes_ = bytes;
  }
  void release() {
    ::operator delete(data_, kLine);
    data_ = nullptr;
    bytes_ = 0;
  }

  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace moesh::backend::cpu
