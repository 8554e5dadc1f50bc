// Compressed attention: besides the tokens in its window, a query sees pools of several tokens, some of which are chosen for it.
#pragma once

#include "nn/context.h"

namespace moesh::nn {

// One vector of a token, or of a pool, is the key and the value of all heads.
Tensor compressed_attention(Builder& builder, const Context& context, const std::string& name, Tensor x, const Tokens& tokens,
                            const config::LayerShape& layer);

}  // namespace moesh::nn
