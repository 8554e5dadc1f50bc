// GEMM of bfloat16 operands on AMX. Tiles multiply so much faster than memory delivers that memory traffic decides: a part of b is packed
// once and stays in the L2 cache, and a few rows of a at a time stay in the L1 cache while that part streams past. They are read in place
// if their depth is contiguous, and transposed once if it is not.
#pragma once

#include "backend/cpu/gemm.h"

namespace moesh::backend::cpu {

template <typename C>
void multiply_in_tiles(Workers* workers, const Matrices<const bfloat16>& a, const Matrices<const bfloat16>& b, const Matrices<C>& c,
                       const MultiplyOptions& options);

// Scratch memory per thread.
std::int64_t tiles_scratch_bytes();

}  // namespace moesh::backend::cpu
