// Linear attention: Gated DeltaNet.
#pragma once

#include "nn/context.h"

namespace moesh::nn {

// Maps a layer's normed input to what attention adds to it. See graph/delta_rule.h for what its memory does.
Tensor delta_net(Builder& builder, const Context& context, const std::string& name, Tensor x, const Tokens& tokens);

}  // namespace moesh::nn
