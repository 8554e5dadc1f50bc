// Multi-token prediction, as in DeepSeek V3 and MaxText's mtp_num_layers: modules behind the layers, the k-th of which predicts the token
// that is k places further on than the next one. Training only; decoding leaves them out.
#pragma once

#include <vector>

#include "models/stack.h"
#include "models/vocabulary.h"

namespace moesh::models {

struct Predicted {
  Tensor loss;  // mean cross entropy of all modules, scaled by mtp_loss_scaling_factor
  std::vector<Tensor> balance_losses, loads;  // of the modules' layers, as in StackResult
};

// `x_BSM`: what leaves the model's last layer. `tokens`: of the batch; the keys of the modules' layers follow those of the model's.
Predicted predict_ahead(Builder& builder, const Context& context, const Vocabulary& vocabulary, Tensor x_BSM, const Tokens& tokens);

}  // namespace moesh::models
