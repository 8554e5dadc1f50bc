// A training step as one graph: the gradients of a model over its microbatches, their norms, and the update of all that is trained.
//
// Inputs: the batch by the model's names, [microbatches, rows, length] if there are several microbatches; parameters and moments,
// each of which is also a result of the same name; and the numbers of update_inputs. Further results: the metrics below and those
// of update_results.
#pragma once

#include <string>

#include "config/settings.h"
#include "graph/graph.h"
#include "train/graph_passes.h"
#include "train/passes.h"
#include "train/trained.h"

namespace moesh::train {

// Metrics of a step, scalars unless a shape is given. The losses beside the entropy, summed over microbatches, have their names in
// models::results.
namespace step_results {
inline constexpr const char* loss = "loss";                // as reported: lm_loss plus a microbatch's mean losses beside it
inline constexpr const char* lm_loss = "lm_loss";          // cross entropy per position
inline constexpr const char* positions = "positions";      // number of positions that count
inline constexpr const char* expert_load = "expert_load";  // [microbatches, MoE layers, E + 1], see models::results
inline constexpr const char* max_logits = "max_logits";    // the highest score of any head; only with use_qk_clip
inline constexpr const char* logits = "logits";            // [microbatches, rows, length, V], if they are kept
// The gradient of the sum of the microbatches' losses, if gradients are kept, and the factor that makes it that of the reported loss.
inline std::string gradient(const std::string& path) { return "gradient/" + path; }
inline constexpr const char* gradient_factor = "gradient_factor";
}  // namespace step_results

// Further results, on request.
struct Keep {
  bool logits = false;
  bool gradients = false;
};

// `devices`: how many devices can share the work of the update. `see`: may be empty.
graph::Graph step_graph(const graph::Graph& model, const config::Settings& settings, const Keep& keep = {},
                        std::int64_t devices = 1, Reduction reduction = Reduction::each_pass, const SeeGraph& see = {});

// The learning rate of a step, counted from 0.
double learning_rate(const config::Settings& settings, std::int64_t step);

}  // namespace moesh::train
