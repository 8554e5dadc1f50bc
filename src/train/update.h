// The update of a step: from gradients to new parameters and moments.
#pragma once

#include <vector>

#include "config/settings.h"
#include "graph/builder.h"
#include "train/trained.h"

namespace moesh::train {

// What the update starts from: the parameters that are trained, and their gradients. Tensors that were not computed are absent.
struct UpdateOf {
  std::vector<graph::Tensor> parameters;
  std::vector<graph::Tensor> gradients;
  graph::Tensor loss;             // a step whose loss is not finite or a spike is left out, if the settings say so
  graph::Tensor gradient_factor;  // multiplies the gradients; absent: 1
  graph::Tensor expert_load;      // [microbatches, MoE layers, E + 1]
  graph::Tensor highest;          // scores of heads, [microbatches, layers, heads]
};

// Names of the scalar inputs and of the results that are added besides the moments.
namespace update_inputs {
inline constexpr const char* learning_rate = "learning_rate";
inline constexpr const char* step = "step";  // number of the step, from 1, counting those that were left out as they were not finite
// With skip_step_on_spikes only: a step above them is left out.
inline constexpr const char* loss_limit = "loss_limit";
inline constexpr const char* grad_norm_limit = "grad_norm_limit";
}  // namespace update_inputs
namespace update_results {
inline constexpr const char* raw_grad_norm = "raw_grad_norm";
inline constexpr const char* grad_norm = "grad_norm";    // after clipping
inline constexpr const char* param_norm = "param_norm";  // of the new parameters
inline constexpr const char* applied = "applied";        // 1, or 0 for a step that is left out: the new state is the old one
}  // namespace update_results

// Adds moments and numbers as inputs, the norms and whether the step is applied, then the updates. Each new parameter and moment is
// the result of its name. `devices`: how many devices can share the work.
void add_update(graph::Builder& builder, const std::vector<Trained>& parameters, const UpdateOf& of,
                const config::Settings& settings, std::int64_t devices);

}  // namespace moesh::train
