// Rotary position embedding of queries and keys.
#pragma once

#include "nn/context.h"

namespace moesh::nn {

// x is [B, S, heads, dim]; its last dim turns with the positions.
Tensor rope(Builder& builder, const Context& context, Tensor x, Tensor positions);

}  // namespace moesh::nn
