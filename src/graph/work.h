// What nodes have their devices do: the one place that flops and bytes come from.
#pragma once

#include "graph/facts.h"
#include "mesh/mesh.h"

namespace moesh::graph {

// What the node's kernel does on each device: of values that are laid out on the mesh, or have one device's shapes.
Work work_of(const NodeView& view, const mesh::Mesh& mesh);
// The same, but for its bytes, of a node whose dims have these factors, of these sizes on a device.
Work work_of(const Node& node, const OpFactors& factors, const std::vector<std::int64_t>& sizes);

// Of so many groups, how many are expected to have one of these rows, each of which may be in any.
double groups_with_rows(double rows, double groups);

}  // namespace moesh::graph
