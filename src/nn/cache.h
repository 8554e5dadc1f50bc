// What attention keeps of earlier tokens, so that each is worked on once.
#pragma once

#include "nn/context.h"

namespace moesh::nn {

// The new tokens' rows, [B, S, ...], among those of all tokens so far, [B, slots, ...]. What is kept is a state of the program.
Tensor remember(Builder& builder, const Context& context, const std::string& name, Tensor rows, Tensor positions, Labels labels);

}  // namespace moesh::nn
