// The order in which the values of several devices are added up. Every sum over devices goes by it, so that it has the same bits
// however its bytes travel and wherever the devices stand.
#pragma once

#include <vector>

#include "mesh/mesh.h"

namespace moesh::mesh {

// A sum goes axis by axis, the mesh's last axis first; an axis that crosses slices counts as two, within the slices first. Along
// an axis the values are added in the order of their coordinates, from the first on. From axis to axis sums stay wide (float32
// for bfloat16 and float32, float64 for float64), and they are rounded once, at the end.
//
// The sizes of these steps, the one that is made first last, without those of a single device. In this order they number the
// devices that differ in these axes only: the first axis major.
std::vector<std::int64_t> sum_steps(const Mesh& mesh, AxisList axes);

}  // namespace moesh::mesh
