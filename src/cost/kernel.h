// How long a kernel takes on a chip: a roofline below the chip's peaks.
#pragma once

#include "graph/facts.h"
#include "mesh/hardware.h"

namespace moesh::cost {

// The share of a chip's peaks that a kernel reaches.
struct Reached {
  double flops = 1;
  double bytes = 1;
};
Reached reached_by(const graph::Work& work, const mesh::Chip& chip);

// The longer one of its arithmetic and its memory traffic, and what lies between two kernels of a queue.
double kernel_seconds(const graph::Work& work, const mesh::Chip& chip);

// The rate of multiplications and additions of such numbers at the chip's peak; rounded ones at that of its operands where it has none.
double flops_per_second(const mesh::Chip& chip, DType dtype, graph::Rounded rounded = graph::Rounded::none);

}  // namespace moesh::cost
