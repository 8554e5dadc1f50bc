// The KV cache: what attention keeps of earlier tokens, so that each token is processed only once.
#pragma once

#include "nn/context.h"

namespace moesh::nn {

// Writes the new tokens' rows, [B, S, ...], into a cache, and returns the rows of all tokens so far, [B, slots, ...]. The cache is a state
// of the program.
Tensor update_cache(Builder& builder, const Context& context, const std::string& name, Tensor rows, Tensor positions, Labels labels);

}  // namespace moesh::nn
