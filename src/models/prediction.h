// Multi-token prediction, as in DeepSeek V3 and MaxText's mtp_num_layers: modules behind the layers, the k-th of which predicts the token
// that is k places further on than the next one. Training only; decoding leaves them out.
#pragma once

#include <string_view>

#include "models/stack.h"
#include "models/vocabulary.h"

namespace moesh::models {

// Whether a parameter of this path belongs to a module, and whether it does to one of a module's layers.
bool is_of_module(std::string_view path);
bool is_of_module_layer(std::string_view path);

// Adds the modules' layers to those of the model. Returns their loss: the mean cross entropy of all modules, scaled by
// mtp_loss_scaling_factor. `tokens`: of the batch; the keys of the modules' layers follow those of the model's.
Tensor predict_ahead(Builder& builder, const Context& context, Vocabulary& vocabulary, const Tokens& tokens, StackResult& layers);

}  // namespace moesh::models
