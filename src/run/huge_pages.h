// Asks for huge pages for the parts of an arena that are used in full, or nearly so.
#pragma once

#include <cstdint>
#include <functional>

#include "plan/arena.h"
#include "run/memory.h"

namespace moesh::run {

// Asks for them where buffers lie that are used as a whole. Buffers whose number of rows depends on the router are filled only in part,
// from their beginning, and the memory after those rows stays untouched; they have huge pages if a device's share of all rows takes many of
// them. `size`: the size of each buffer with which the arena was packed.
void give_huge_pages(const plan::Plan& plan, const plan::Arena& arena, const std::function<std::int64_t(const plan::Buffer&)>& size,
                     const Memory& memory);

}  // namespace moesh::run
