// Memory of the machine that is taken when it is first touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace moesh {

inline constexpr std::int64_t kHugePage = 2 << 20;

// What a block takes when all of it has been touched: from half a huge page on, whole ones.
constexpr std::int64_t bytes_of_pages(std::int64_t bytes) {
  return bytes < kHugePage / 2 ? bytes : (bytes + kHugePage - 1) / kHugePage * kHugePage;
}

// All zero, or null where there is no more; `errno` then says why. A block that may have huge pages begins with one.
std::shared_ptr<std::byte> take_pages(std::int64_t bytes);

// Asks for huge pages where whole ones fit: one is found in the tables of the processor where hundreds of small ones are not. For what
// is touched as a whole: the first touch takes all of it.
void ask_for_huge_pages(std::byte* begin, std::int64_t bytes);

}  // namespace moesh
