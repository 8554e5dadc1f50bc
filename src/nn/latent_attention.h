// Multi-head latent attention: keys and values come from one narrow vector per token.
#pragma once

#include "nn/attention.h"

namespace moesh::nn {

Attended latent_attention(Builder& builder, const Context& context, const std::string& name, Tensor x, const Tokens& tokens);

}  // namespace moesh::nn
