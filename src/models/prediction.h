// Multi-token prediction, as in DeepSeek V3 and MaxText's mtp_num_layers: modules behind the layers, the k-th of which predicts the token
// that is k places further on than the next one. Training only; decoding leaves them out.
#pragma once

#include "models/stack.h"
#include "models/vocabulary.h"

namespace moesh::models {

inline constexpr const char* kPredictionScope = "mtp_block";  // of all that modules have
inline constexpr const char* kModuleLayer = "transformer_layer";  // of a module's layers, behind its prefix

// Adds the modules' layers to those of the model. Returns their loss: the mean cross entropy of all modules, scaled by
// mtp_loss_scaling_factor. `tokens`: of the batch; the keys of the modules' layers follow those of the model's.
Tensor predict_ahead(Builder& builder, const Context& context, Vocabulary& vocabulary, const Tokens& tokens, StackResult& layers);

}  // namespace moesh::models
