// What this machine can do at most, measured: what its kernels are held to.
#pragma once

#include "backend/workers.h"
#include "base/dtype.h"

namespace moesh::measure {

struct ProductRates {
  double registers = 0;  // FLOP/s of micro kernels whose operands stay in the first cache, on all threads
  double large = 0;      // FLOP/s of a product of large matrices
};

struct MachineRates {
  ProductRates float32, bfloat16;
  double stream = 0;  // bytes read and written in a second by a copy that no cache holds

  const ProductRates& of(DType dtype) const { return dtype == DType::bfloat16 ? bfloat16 : float32; }
};

// The best of a few tries each: some seconds.
MachineRates measure_rates(backend::Workers& workers);

}  // namespace moesh::measure
