// The collectives that take a value from one layout to another.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "mesh/mesh.h"
#include "sharding/spec.h"

namespace moesh::partition {

// One collective or slice, and the spec after it.
struct ReshardStep {
  graph::ReshardOf how;
  sharding::Spec result;
};

// Data is moved while it is small: slices come first, then reduce-scatters and all-to-alls, then all-reduces, permutes and all-gathers.
// A permute that brings a dim's axes into order may come before all of them. `to` may be a partial sum only over axes over which `from` is
// one too. All axes must be larger than 1.
std::vector<ReshardStep> reshard_steps(const sharding::Spec& from, const sharding::Spec& to, const mesh::Mesh& mesh);

// These steps, and other ways to the same layout that may be faster. They differ in the order in which dims gain or lose axes: the most
// bytes should take the fastest links. And a partial sum over several axes can be reduce-scattered over all of them at once, even over
// those that will shard nothing, which are then gathered: together they have the links of all.
std::vector<std::vector<ReshardStep>> reshard_ways(const Shape& shape, const sharding::Spec& from, const sharding::Spec& to,
                                                   const mesh::Mesh& mesh);

}  // namespace moesh::partition
