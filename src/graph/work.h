// The work that nodes give their devices: the only source of flop and byte counts.
#pragma once

#include "graph/facts.h"
#include "mesh/mesh.h"

namespace moesh::graph {

// The work of the node's kernel on each device, for values that are laid out on the mesh or have the shapes of one device.
Work work_of(const NodeView& view, const mesh::Mesh& mesh);
// The same without the bytes, for a node whose dims have these factors with these sizes on a device.
Work work_of(const Node& node, const OpFactors& factors, const std::vector<std::int64_t>& sizes);

// The expected number of groups that have a row, if each row is equally likely to be in any group.
double groups_with_rows(double rows, double groups);

}  // namespace moesh::graph
