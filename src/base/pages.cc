#include "base/pages.h"

#include <algorithm>

#include <sys/mman.h>

namespace moesh {

std::shared_ptr<std::byte> take_pages(std::int64_t bytes) {
  const std::int64_t needed = bytes_of_pages(std::max<std::int64_t>(bytes, 1));
  const bool huge = needed >= kHugePage;
  // A huge page begins at a multiple of its size, so one page more than needed is mapped, and the block begins within the first.
  const auto size = static_cast<std::size_t>(huge ? needed + kHugePage : needed);
  void* const made = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made == MAP_FAILED) return nullptr;
  auto* begin = static_cast<std::byte*>(made);
  if (huge) {
    void* aligned = made;
    std::size_t room = size;
    begin = static_cast<std::byte*>(std::align(kHugePage, static_cast<std::size_t>(needed), aligned, room));
  }
  return {begin, [made, size](std::byte*) { ::munmap(made, size); }};
}

void ask_for_huge_pages(std::byte* begin, std::int64_t bytes) {
  void* first = begin;
  auto room = static_cast<std::size_t>(bytes);
  if (std::align(kHugePage, kHugePage, first, room) == nullptr) return;
  ::madvise(first, room / kHugePage * kHugePage, MADV_HUGEPAGE);  // kernels without huge pages refuse this
}

}  // namespace moesh
