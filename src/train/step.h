// A training step as one graph: the gradients of a model over its microbatches, their norms, and the update of all that is
// trained.
//
// Inputs: the batch by the model's names, [microbatches, rows, length] where there are several; parameters and moments, each
// handed back as the result of its name; and the numbers of update_inputs. Results besides: the metrics below and those of
// update_results.
#pragma once

#include <string>
#include <vector>

#include "config/settings.h"
#include "graph/graph.h"
#include "train/graph_passes.h"
#include "train/trained.h"

namespace moesh::train {

// Metrics of a step, scalars but for those whose shape is given.
namespace step_results {
inline constexpr const char* loss = "loss";                  // as reported: lm_loss and the mean balance loss of a microbatch
inline constexpr const char* lm_loss = "lm_loss";            // cross entropy a position
inline constexpr const char* balance_loss = "balance_loss";  // of all microbatches; only for a model with one
inline constexpr const char* positions = "positions";        // that count
inline constexpr const char* expert_load = "expert_load";    // [microbatches, MoE layers, E + 1], see models::results
inline constexpr const char* logits = "logits";              // [microbatches, rows, length, V], where they are kept
// The gradient of what the microbatches' losses add up to, where gradients are kept, and what makes it that of the loss.
inline std::string gradient(const std::string& path) { return "gradient/" + path; }
inline constexpr const char* gradient_factor = "gradient_factor";
}  // namespace step_results

// What is given besides, where it is asked for.
struct Keep {
  bool logits = false;
  bool gradients = false;
};

// `devices`: among which the work of the update can be shared out. `see`: may be empty.
graph::Graph step_graph(const graph::Graph& model, const config::Settings& settings, const Keep& keep = {},
                        std::int64_t devices = 1, const SeeGraph& see = {});

// The learning rate of a step, from 0 on.
double learning_rate(const config::Settings& settings, std::int64_t step);

}  // namespace moesh::train
