// The collectives that take a value from one layout to another.
#pragma once

#include <string>
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

[[noreturn]] void fail_to_reshard(const std::string& path);

// Ways from one layout to another; `to` may be a partial sum only over axes over which `from` is one too, and all axes must be larger
// than 1. The first way moves data while it is small: slices come first, then reduce-scatters and all-to-alls, then all-reduces, permutes
// and all-gathers; a permute that brings a dim's axes into order may come before all of them. Others may be faster: they differ in the
// order in which dims gain or lose axes, as the most bytes should take the fastest links. And a partial sum over several axes can be
// reduce-scattered over all of them at once, even over those that will shard nothing, which are then gathered: together they have the
// links of all.
std::vector<std::vector<ReshardStep>> reshard_ways(const Shape& shape, const sharding::Spec& from, const sharding::Spec& to,
                                                   const mesh::Mesh& mesh);

}  // namespace moesh::partition
