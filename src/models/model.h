// A whole model as a graph on global shapes, from tokens to the loss.
#pragma once

#include <cstdint>

#include "config/model_shape.h"
#include "graph/graph.h"
#include "mesh/mesh.h"

namespace moesh::models {

struct ModelRequest {
  const config::Settings& settings;
  const config::ModelShape& shape;
  std::int64_t rows = 1;           // of one pass
  std::int64_t expert_shards = 1;  // shards of the expert dim in activations
  const mesh::Mesh* mesh = nullptr;
};

// Names of a model's results.
namespace results {
inline constexpr const char* loss = "loss";                // what is reported: cross entropy a position plus balance loss
inline constexpr const char* entropy_sum = "entropy_sum";  // over the positions that count
inline constexpr const char* positions = "positions";      // their number
inline constexpr const char* logits = "logits";
inline constexpr const char* balance_loss = "balance_loss";  // only for a model with one
inline constexpr const char* expert_load = "expert_load";    // [MoE layers, E + 1]: tokens of each expert, then dropped choices
}  // namespace results

graph::Graph build_model(const ModelRequest& request);

}  // namespace moesh::models
