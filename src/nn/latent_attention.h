// Multi-head latent attention: keys and values come from one narrow vector per token.
#pragma once

#include "nn/context.h"

namespace moesh::nn {

Tensor latent_attention(Builder& builder, const Context& context, const std::string& name, Tensor x,
                        const Tokens& tokens);

}  // namespace moesh::nn
