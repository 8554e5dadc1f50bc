// From one layout of a value to another: the collectives on the way.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "mesh/mesh.h"
#include "sharding/spec.h"

namespace moesh::partition {

struct ReshardStep {
  graph::ReshardOf how;
  sharding::Spec result;
};

// What must move moves early and small: slices come first, then reduce-scatters and all-to-alls, then what makes values
// larger. `to` may be a partial sum only over axes that `from` is one over. Axes have sizes above 1.
std::vector<ReshardStep> reshard_steps(const sharding::Spec& from, const sharding::Spec& to, const mesh::Mesh& mesh);

}  // namespace moesh::partition
