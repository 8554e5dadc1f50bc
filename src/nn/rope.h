// Rotary position embedding of queries and keys.
#pragma once

#include "nn/context.h"

namespace moesh::nn {

// x is [B, S, heads, dim]; its last dim turns with the positions. `windowed`: of a layer that sees a window of keys only, whose
// rotation may be another one.
Tensor rope(Builder& builder, const Context& context, Tensor x, Tensor positions, bool windowed = false);

}  // namespace moesh::nn
