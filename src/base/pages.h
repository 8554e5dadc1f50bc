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

// All zero, or null where there is no more; `errno` then says why. Larger blocks ask for huge pages, of which one is found in the tables
// of the processor where hundreds of small ones are not.
std::shared_ptr<std::byte> take_pages(std::int64_t bytes);

}  // namespace moesh
