// Several streams of the residual: manifold-constrained hyper-connections.
#pragma once

#include <functional>
#include <string>

#include "nn/context.h"

namespace moesh::nn {

// The streams that layers are given, which are all x [B, S, M], and what leaves the layers: their sum, or a weighted one. One stream has no
// dim of its own.
Tensor to_streams(const Context& context, Tensor x);
Tensor from_streams(Builder& builder, const Context& context, Tensor x);

// Adds what `block` makes of x to x. Of several streams, [B, S, K, M], it is given a weighted sum; they are mixed, and each gets a share of
// what it makes. The weights are functions of all streams, whose parameters are in a scope of this name.
Tensor connect(Builder& builder, const Context& context, const std::string& name, Tensor x, const std::function<Tensor(Tensor)>& block);

}  // namespace moesh::nn
