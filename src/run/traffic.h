// What the devices really send in regions, where it depends on which experts the tokens choose.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "run/placed.h"

namespace moesh::run {

// Adds the bytes that each device sends for a collective of a region; on the way back a token's rows travel as one, with its
// number. Of other nodes there are none.
void add_traffic(const graph::Node& node, const std::vector<const Placed*>& operands, const Placed& result,
                 const mesh::Mesh& mesh, std::vector<double>& sent);

}  // namespace moesh::run
