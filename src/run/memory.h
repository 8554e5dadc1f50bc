// Memory of the machine, whose pages are taken when they are first touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace moesh::run {

class Memory {
 public:
  explicit Memory(std::int64_t bytes);  // all zero

  std::byte* at(std::int64_t offset) const { return begin_.get() + offset; }
  const std::shared_ptr<std::byte>& owner() const { return begin_; }
  std::int64_t bytes() const { return bytes_; }
  // Makes the memory inaccessible, or accessible again: for tests of which owner touches what.
  void close(bool is_closed) const;

 private:
  std::int64_t bytes_;
  std::shared_ptr<std::byte> begin_;
};

// The other memory if there is one and it is large enough, else new memory.
inline Memory memory_for(std::int64_t bytes, const Memory* other) {
  return other != nullptr && other->bytes() >= bytes ? *other : Memory(bytes);
}

}  // namespace moesh::run
