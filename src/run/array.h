// Buffers that hold values while a program runs.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>

#include "backend/kernel.h"

namespace moesh::run {

using backend::View;
using backend::Workers;

// A dense value; copies share the buffer.
struct Array {
  std::shared_ptr<void> storage;
  View view;

  explicit operator bool() const { return storage != nullptr; }
  std::int64_t bytes() const { return view.count() * size_of(view.dtype); }
  template <typename T>
  T* as() const {
    return view.as<T>();
  }
  std::byte* raw() const { return view.raw(); }
};

// Hands out buffers and takes them back for reuse. Arrays keep the pool alive as long as they are used. It never holds more of the
// machine's memory than arrays took at once: buffers that are free are released to make room for those of other sizes.
class Pool : public std::enable_shared_from_this<Pool> {
 public:
  static std::shared_ptr<Pool> create() { return std::shared_ptr<Pool>(new Pool()); }
  ~Pool();

  Array allocate(Shape shape, DType dtype);
  std::size_t peak_bytes() const { return peak_; }
  // The most memory that was taken from the machine, with sizes rounded up.
  std::size_t peak_taken() const { return peak_taken_; }
  std::size_t held() const { return held_; }  // bytes of all buffers, in use and free

 private:
  Pool() = default;
  struct Free {
    void* buffer;
    std::uint64_t since;  // number of buffers that were given back before
  };

  void give_back(void* buffer, std::size_t size);
  void* take(std::size_t capacity);
  void release_oldest();

  std::mutex mutex_;
  std::map<std::size_t, std::deque<Free>> free_;  // by capacity, none empty; oldest first
  std::uint64_t given_back_ = 0;
  std::size_t live_ = 0;   // bytes of values in use
  std::size_t peak_ = 0;
  std::size_t taken_ = 0;  // capacities of buffers in use
  std::size_t peak_taken_ = 0;
  std::size_t held_ = 0;   // capacities of all buffers
};

// The same buffer seen with another shape of the same number of elements.
Array reshaped(const Array& array, Shape shape);

Array copy_of(const Array& array, Pool& pool);

}  // namespace moesh::run
