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

// Names of a model's inputs, [rows, length]. Training has targets besides, and the place of each token in its row: documents in
// a row have positions of their own, and a row may lie in another order. Where experts are drawn at random there are the tokens'
// numbers and the layers' keys, [layers, 2], too; see draws.h.
namespace inputs {
inline constexpr const char* tokens = "inputs";
inline constexpr const char* order = "inputs_order";
inline constexpr const char* positions = "inputs_position";
inline constexpr const char* segments = "inputs_segmentation";
inline constexpr const char* numbers = "inputs_number";
inline constexpr const char* draw_keys = "draw_keys";
}  // namespace inputs

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

struct DecodeShape {
  std::int64_t new_tokens = 1;   // of a row in one run: 1 while decoding, the prompt's length before
  std::int64_t cache_slots = 1;  // positions of a row that can be kept
  bool gives_logits = true;      // else tokens are only kept, and nothing is done that keeping does not need
};

// The same model on new tokens of rows whose earlier ones are kept: from tokens, positions and segments to logits. What is kept
// are its states, each with a result of the same name: its next value. They start as zeros: in the segment of padding.
graph::Graph build_decode_model(const ModelRequest& request, const DecodeShape& shape);

}  // namespace moesh::models
