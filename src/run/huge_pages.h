// Which parts of an arena have huge pages.
#pragma once

#include <cstdint>
#include <functional>

#include "plan/arena.h"
#include "run/memory.h"

namespace moesh::run {

// Where buffers lie that are used as a whole. Of others a router's rows fill a part, and what lies behind them stays untouched.
// `size` of each buffer, as the arena was packed.
void give_huge_pages(const plan::Plan& plan, const plan::Arena& arena, const std::function<std::int64_t(const plan::Buffer&)>& size,
                     const Memory& memory);

}  // namespace moesh::run
