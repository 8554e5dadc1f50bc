// The forward and backward passes of a step: one for each microbatch.
#pragma once

#include <string>
#include <vector>

#include "config/settings.h"
#include "graph/builder.h"
#include "train/graph_passes.h"
#include "train/trained.h"

namespace moesh::train {

// Of all microbatches. Sums are float32; what a microbatch has of its own is stacked, [microbatches, ...]. What the model does
// not make, or nobody asked for, is absent.
struct Passes {
  graph::Tensor entropy_sum;   // over the positions that count
  graph::Tensor positions;     // their number
  graph::Tensor balance_loss;  // summed over microbatches
  graph::Tensor expert_load;   // [microbatches, MoE layers, E + 1]
  graph::Tensor logits;        // [microbatches, rows, length, V]
  // In the order of the parameters, each laid out as its parameter. With several microbatches they are of what the losses add
  // up to: the summed entropy, so they are to be divided by the positions of all.
  std::vector<graph::Tensor> gradients;
};

// Adds the model's inputs and parameters, the batch's with all microbatches, [microbatches, rows, length] where there are
// several. What the backward pass finds saved is decided here, and written into the graph. `see`: may be empty.
Passes add_passes(graph::Builder& builder, const graph::Graph& model, const std::vector<Trained>& parameters,
                  const config::Settings& settings, bool keep_logits, const SeeGraph& see);

}  // namespace moesh::train
