// Products of bfloat16 on AMX. Tiles multiply so much faster than memory gives that what they read decides: a part of b is packed once
// and stays in the second cache, and rows of a, which are read where they lie if their depth runs and are turned once if it does not,
// pass by it.
#pragma once

#include "backend/cpu/gemm.h"

namespace moesh::backend::cpu {

template <typename C>
void multiply_in_tiles(Workers* workers, const Matrices<const bfloat16>& a, const Matrices<const bfloat16>& b, const Matrices<C>& c,
                       const MultiplyOptions& options);

// Of a thread.
std::int64_t tiles_scratch_bytes();

}  // namespace moesh::backend::cpu
