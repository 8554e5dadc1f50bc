// Finds the first difference between two plans.
#pragma once

#include <string>

#include "plan/file.h"
#include "plan/plan.h"

namespace moesh::plan {

// The first difference in the order in which the plans run, in words: "instruction 12 (einsum of decoder/layers/mlp/wi): the
// shape of operand 1 is [64] in the file and [32] here". Empty if they are equal.
std::string first_difference(const Plan& saved, const Plan& here);

// Refuses a saved plan that is for another machine or mesh, or that differs from the plan of this request. `path`: the file of the plan.
void check_same(const SavedPlan& saved, const Plan& here, const Origin& origin, const std::string& path);

}  // namespace moesh::plan
