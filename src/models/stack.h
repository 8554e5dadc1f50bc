// How the layers of a group are laid out one after another: one by one, stacked and repeated, or over pipeline stages.
#pragma once

#include <vector>

#include "config/pipeline.h"
#include "models/family.h"

namespace moesh::models {

struct StackResult {
  Tensor x;
  std::vector<Tensor> balance_losses;  // scalars, summed over the layers they stand for
  std::vector<Tensor> loads;           // [layers, E] each, in the layers' order
};

// Of `count` layers from `first` on.
Tokens for_layers(Tokens tokens, std::int64_t first, std::int64_t count);

StackResult stack_layers(Builder& builder, const Context& context, const LayerGroup& group, Tensor x,
                         const Tokens& tokens);

}  // namespace moesh::models
