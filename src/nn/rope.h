// Rotary position embedding of queries and keys.
#pragma once

#include "nn/context.h"

namespace moesh::nn {

// x is [B, S, heads, dim]; its last dim turns with the positions. `windowed`: of a layer that sees a window of keys only, whose
// rotation may be another one.
Tensor rope(Builder& builder, const Context& context, Tensor x, Tensor positions, bool windowed = false);

// Of Gemma 4's layers, whose kinds have wavelengths of their own. `of_dims`: how many dims of a head the frequencies are those of, of
// which x has the fastest.
Tensor rope_of_kind(Builder& builder, const Context& context, Tensor x, Tensor positions, bool is_global, std::int64_t of_dims);

}  // namespace moesh::nn
