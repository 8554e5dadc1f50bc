// How long a kernel takes on a chip: a roofline below the chip's peak rates.
#pragma once

#include "graph/facts.h"
#include "mesh/hardware.h"

namespace moesh::cost {

// The shares of a chip's peak rates that a kernel reaches.
struct Reached {
  double flops = 1;
  double bytes = 1;
};
Reached reached_by(const graph::Work& work, const mesh::Chip& chip);

// The time of its arithmetic or of its memory traffic, whichever is longer, plus the gap between two kernels of a queue.
double kernel_seconds(const graph::Work& work, const mesh::Chip& chip);

// The chip's peak rate of multiplications and additions of such numbers; for quantized numbers, the rate of the operands' type if the chip
// has none for them.
double flops_per_second(const mesh::Chip& chip, DType dtype, graph::Rounded rounded = graph::Rounded::none);

}  // namespace moesh::cost
