// The forward and backward passes of a training step, once for each microbatch.
#pragma once

#include <array>
#include <vector>

#include "config/settings.h"
#include "graph/builder.h"
#include "models/model.h"
#include "train/graph_passes.h"
#include "train/trained.h"

namespace moesh::train {

// When devices add up the gradients that they have of several microbatches: after each microbatch, or once, after each device has added
// up its own. What the layout of a parameter shards is reduced in each pass all the same.
enum class Reduction { each_pass, once };

// The results over all microbatches. Sums are float32; results of each microbatch are stacked, [microbatches, ...]. What the model
// does not have, or was not asked for, is absent.
struct Passes {
  graph::Tensor entropy_sum;  // over the positions that count; 0 if the indexer is trained alone
  graph::Tensor positions;    // their number
  graph::Tensor z_loss;       // the part that z_loss_multiplier makes, per position, summed over microbatches
  std::array<graph::Tensor, models::results::losses_beside.size()> losses_beside;  // summed over microbatches
  graph::Tensor expert_load;  // [microbatches, MoE layers, E + 1]
  graph::Tensor highest;      // scores of heads, [microbatches, layers, heads]
  graph::Tensor logits;       // [microbatches, rows, length, V]
  // One per parameter, in the order of the parameters and with their layouts. With several microbatches they are the gradients of
  // what the losses add up to, the summed entropy, and have yet to be divided by the positions of all microbatches.
  std::vector<graph::Tensor> gradients;
};

// What the optimizer's gradients are rounded to.
DType gradient_dtype(const config::Settings& settings);

// Adds the model's inputs and parameters, and the passes. A batch input has all microbatches, [microbatches, rows, length] if there
// are several. Which values are saved for the backward pass is decided here and written into the graph. `see`: may be empty.
Passes add_passes(graph::Builder& builder, const graph::Graph& model, const std::vector<Trained>& parameters,
                  const config::Settings& settings, bool keep_logits, Reduction reduction, const SeeGraph& see);

}  // namespace moesh::train
