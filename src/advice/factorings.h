// The ways to divide a slice's devices among the axes of a mesh, by the state that a device then holds.
#pragma once

#include <vector>

#include "session/session.h"

namespace moesh::advice {

struct Factoring {
  mesh::Mesh mesh;
  std::int64_t state_bytes = 0;  // parameters and moments of a device
};

// Other sizes within a slice: fsdp, expert, tensor and context get devices, as far as the mesh has these axes and its rules use them;
// all but stage give them up. Only those over which parameters and the input lie evenly; the least state first; of those with
// as much the least change to what tensor and context have.
std::vector<Factoring> factorings(const session::Session& session);

}  // namespace moesh::advice
