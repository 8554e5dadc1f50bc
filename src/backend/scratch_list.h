// Lists that a kernel uses only while it runs. Each thread keeps their memory for later lists, so that nothing is allocated once every
// kernel has run.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <new>
#include <vector>

namespace moesh::backend {

// Blocks by size class: each size is a power of two and at least a page. A list whose length is the number of rows that a router sends here
// grows by such steps when more rows arrive than ever before.
class KeptBlocks {
 public:
  static KeptBlocks& of_this_thread() {
    static thread_local KeptBlocks kept;
    return kept;
  }
  KeptBlocks() = default;
  KeptBlocks(const KeptBlocks&) = delete;
  KeptBlocks& operator=(const KeptBlocks&) = delete;
  ~KeptBlocks() {
    for (const std::vector<void*>& blocks : free_) {
      for (void* block : blocks) ::operator delete(block, kLine);
    }
  }

  void* take(std::size_t bytes) {
    std::vector<void*>& blocks = free_[class_of(bytes)];
    if (blocks.empty()) return ::operator new(std::size_t{1} << class_of(bytes), kLine);
    void* block = blocks.back();
    blocks.pop_back();
    return block;
  }
  void give_back(void* block, std::size_t bytes) { free_[class_of(bytes)].push_back(block); }

 private:
  static constexpr std::align_val_t kLine{64};
  static constexpr std::size_t kLeast = 4095;
  static std::size_t class_of(std::size_t bytes) { return static_cast<std::size_t>(std::bit_width(bytes | kLeast)); }

  std::array<std::vector<void*>, 64> free_;
};

template <typename T>
struct ScratchAllocator {
  using value_type = T;
  ScratchAllocator() = default;
  template <typename Other>
  ScratchAllocator(const ScratchAllocator<Other>&) {}  // NOLINT: containers convert

  T* allocate(std::size_t count) { return static_cast<T*>(KeptBlocks::of_this_thread().take(count * sizeof(T))); }
  void deallocate(T* block, std::size_t count) { KeptBlocks::of_this_thread().give_back(block, count * sizeof(T)); }
  template <typename Other>
  bool operator==(const ScratchAllocator<Other>&) const {
    return true;
  }
};

template <typename T>
using ScratchList = std::vector<T, ScratchAllocator<T>>;

}  // namespace moesh::backend
