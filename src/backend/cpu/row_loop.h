// How loops over elements and rows are divided among threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cpu/simd.h"
#include "backend/workers.h"

namespace moesh::backend::cpu {

inline constexpr std::int64_t kGrain = 16384;  // elements worth handing to a thread

// The number of rows of `width` elements worth handing to a thread.
inline std::int64_t grain_of(std::int64_t width, std::int64_t elements = kGrain) { return 1 + elements / std::max<std::int64_t>(1, width); }

// Calls body(row) for all rows, inside a loop compiled for the CPU's instruction set.
template <typename Body>
void for_rows(Workers& workers, std::int64_t count, std::int64_t width, const Body& body) {
  const Isa isa = chosen_isa();
  workers.parallel(count, grain_of(width), [&](std::int64_t begin, std::int64_t end) {
    vectorised(isa, [&]() MOESH_LOOP {
      for (std::int64_t row = begin; row < end; ++row) body(row);
    });
  });
}

}  // namespace moesh::backend::cpu
