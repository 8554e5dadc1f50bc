// The measured peak rates of this machine, against which its kernels are judged.
#pragma once

#include "backend/workers.h"
#include "base/dtype.h"

namespace moesh::measure {

struct ProductRates {
  double registers = 0;  // FLOP/s of micro-kernels whose operands stay in the L1 cache, on all threads
  double large = 0;      // FLOP/s of a product of large matrices
};

struct MachineRates {
  ProductRates float32, bfloat16;
  double stream = 0;  // bytes read and written per second by a copy that fits no cache

  const ProductRates& of(DType dtype) const { return dtype == DType::bfloat16 ? bfloat16 : float32; }
};

// Each rate is the best of a few tries; takes some seconds.
MachineRates measure_rates(backend::Workers& workers);

}  // namespace moesh::measure
