// What the devices really send in regions, where it depends on which experts the tokens choose.
#pragma once

#include <vector>

#include "plan/plan.h"
#include "run/placed.h"

namespace moesh::run {

// Adds the bytes that each device sends for a collective of a region; on the way back a token's rows travel as one, with its
// number. Of other instructions there are none.
void add_traffic(const plan::Instruction& of, const std::vector<Placed>& operands, const Placed& result,
                 const mesh::Mesh& mesh, std::vector<double>& sent);

}  // namespace moesh::run
