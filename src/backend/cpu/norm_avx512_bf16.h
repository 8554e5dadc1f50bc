// Rows of norms in bfloat16 with the instructions that round to it: the compiler's loops round by integer arithmetic, which takes two to
// three times as long. They give the same bits.
#pragma once

#include <cstdint>

#include "base/bfloat16.h"

namespace moesh::backend::cpu {

// y = scale times (x inverse, rounded).
void rms_norm_row_avx512_bf16(const bfloat16* x, float inverse, const bfloat16* scale, std::int64_t width, bfloat16* y);

struct NormGradRow {
  const bfloat16 *x, *scale, *dy;
  const bfloat16* sum;  // added to dx, if there is one; may be in its place
  bfloat16* dx;
  float* dscale;  // added to
  std::int64_t width;
  float inverse, mean;  // of the root mean square; of the products of normalised x and its gradient
};
void rms_norm_grad_row_avx512_bf16(const NormGradRow& row);

}  // namespace moesh::backend::cpu
