// The order in which reductions add up the values of several devices. All of them use it, so that a sum has the same bits whatever
// route its bytes take and wherever the devices are.
#pragma once

#include <vector>

#include "mesh/mesh.h"

namespace moesh::mesh {

// A reduction goes axis by axis, from the mesh's last axis to its first; an axis that crosses slices counts as two, and is reduced
// within the slices first. Along an axis the values are added in the order of their coordinates, from the first on. Between axes the
// sums stay in the wide type (float32 for bfloat16 and float32, float64 for float64), and they are rounded once, at the end.
//
// Returns the sizes of these steps without those of size 1; the step that runs first is the last of the list. The list also numbers
// the devices of the group, which differ in these axes only: the first axis is major.
std::vector<std::int64_t> sum_steps(const Mesh& mesh, AxisList axes);

}  // namespace moesh::mesh
