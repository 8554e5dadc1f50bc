// The verifier: rules that hold for every plan, whether it was lowered here or read from a file.
#pragma once

#include <string>

#include "plan/plan.h"

namespace moesh::plan {

// The first broken rule, with its place: "instruction 12 (einsum of decoder/layers/mlp/wi): ..."; empty if all rules hold:
// - Every id is that of an existing buffer, view or instruction. Specs fit their shapes and the mesh.
// - A view is inside its buffer in every iteration.
// - Loops are nested, and each has its end. A view advances only with loops that are around its use.
// - Operands and results fit the op. A result does not overlap an operand, unless the kernel can work in place and both are the same
//   place.
// - Buffers that last within the run are written before they are read; outputs are written, and inputs are not.
// - Ports have unique names, and buffers that last as the kind of port needs.
std::string broken_rule(const Plan& plan);

// Fails if a rule is broken.
void verify(const Plan& plan);

}  // namespace moesh::plan
