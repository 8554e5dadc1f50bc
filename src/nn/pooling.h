// Keys that are made of several tokens each.
#pragma once

#include "nn/context.h"

namespace moesh::nn {

// Of whole windows of so many tokens.
Windows windows_of(Builder& builder, const Context& context, std::int64_t tokens, const Tokens& of);

// In decoding, what Tokens::windows is to be: all that the model's layers pool, of the cached tokens.
std::vector<Windows> windows_of_layers(Builder& builder, const Context& context, const Tokens& of);

struct PoolOf {
  std::int64_t dim = 0;    // of a pool
  bool overlaps = false;   // a pool takes in the window before its own too
  Role kernel = Role::attention_down_kernel;
};

// A pool of each of the W windows, [B, W, dim]: the mean of what the tokens x [B, S, M] are projected to, weighted in each dim by a gate of
// the token and of its place in the window; normed, and its last dims rotated. Absent without windows. The parameters are in the scope at
// hand, also then. `positions`: of the tokens.
Tensor pool(Builder& builder, const Context& context, Tensor x, const Windows& windows, const PoolOf& of, Tensor positions,
            std::int64_t timescale);

// Rotates the last dims of each head, [B, S, heads, dim], in pairs of neighbours, which `back` rotates back. A rotated pair stands half of
// these dims apart until it is rotated back.
Tensor rotate_last(Builder& builder, const Context& context, Tensor x, Tensor positions, std::int64_t timescale, bool back = false);

}  // namespace moesh::nn
