// Builds the layers of a group: unrolled one by one, stacked and repeated, or over pipeline stages.
#pragma once

#include <vector>

#include "config/pipeline.h"
#include "models/family.h"

namespace moesh::models {

struct StackResult {
  Tensor x;
  std::vector<Tensor> balance_losses;  // scalars, each summed over the layers that it stands for
  std::vector<Tensor> loads;           // [layers, E + 1] each, in the order of the layers
  std::vector<Tensor> highest = {};    // [layers, heads] likewise
  std::vector<Tensor> index_losses = {};  // as balance_losses
};

// Adds what the layers behind those of `result` make.
void append(StackResult& result, const StackResult& more);

// The tokens' data for `count` layers starting at `first`.
Tokens for_layers(Tokens tokens, std::int64_t first, std::int64_t count);

StackResult stack_layers(Builder& builder, const Context& context, const LayerGroup& group, Tensor x,
                         const Tokens& tokens);

// One more cycle of a group's layers, which is never stacked, and stands outside a pipeline's stages.
StackResult single_cycle(Builder& builder, const Context& context, const LayerGroup& group, const std::string& name, Tensor x,
                         const Tokens& tokens);

}  // namespace moesh::models
