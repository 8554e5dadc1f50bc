// Memory whose pages the system provides when they are first touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/rounding.h"

namespace moesh {

inline constexpr std::int64_t kHugePage = 2 << 20;

// The memory that a block takes once all of it has been touched: from half a huge page on, whole huge pages.
constexpr std::int64_t bytes_of_pages(std::int64_t bytes) { return bytes < kHugePage / 2 ? bytes : round_up(bytes, kHugePage); }

// Zeroed memory, or null if there is no more; `errno` then says why. A block that may have huge pages is aligned to them.
std::shared_ptr<std::byte> take_pages(std::int64_t bytes);

// Asks for huge pages where whole ones fit, because the TLB holds one huge page where it cannot hold hundreds of small ones. For memory
// that is used as a whole: the first touch of a huge page takes all of it.
void ask_for_huge_pages(std::byte* begin, std::int64_t bytes);

}  // namespace moesh
