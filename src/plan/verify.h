// What holds of every plan, whoever made it.
#pragma once

#include <string>

#include "plan/plan.h"

namespace moesh::plan {

// The first rule that the plan breaks, with where and what: "instruction 12 (einsum of decoder/layers/mlp/wi): ..."; empty when
// all hold.
//
// Ids name what is there. Specs fit their shapes and the mesh. Views stand inside their buffers, whatever iteration. Loops are
// nested and each has its end; a view advances with loops that it stands in. Operands and results are what the op takes and
// gives; a result lies apart from the operands unless the kernel goes element by element and both are the same place. What lasts
// within the run is written before it is read, outputs are written and inputs are not. Ports have names of their own and buffers
// that last as they do.
std::string broken_rule(const Plan& plan);

// Fails where a rule is broken.
void verify(const Plan& plan);

}  // namespace moesh::plan
