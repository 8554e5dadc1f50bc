// Rotary position embedding of queries and keys.
#pragma once

#include "nn/context.h"

namespace moesh::nn {

// Rotates the last dim of x, [B, S, heads, dim], by the positions. `windowed`: for a layer with a sliding window, which may have
// wavelengths of its own.
Tensor rope(Builder& builder, const Context& context, Tensor x, Tensor positions, bool windowed = false);

// The same with the pairs (i, i + dim / 2), whatever rope_interleave says.
Tensor rope_in_halves(Builder& builder, const Context& context, Tensor x, Tensor positions);

// The same for Gemma 4, whose global and local layers have wavelengths of their own. `of_dims`: the number of dims of a head that the
// frequencies are spread over; x has the fastest of them.
Tensor rope_of_kind(Builder& builder, const Context& context, Tensor x, Tensor positions, bool is_global, std::int64_t of_dims);

}  // namespace moesh::nn
