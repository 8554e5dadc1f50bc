// A whole model as a graph on global shapes, from tokens to the loss.
#pragma once

#include <array>
#include <cstdint>

#include "config/model_shape.h"
#include "graph/graph.h"
#include "mesh/mesh.h"

namespace moesh::models {

struct ModelRequest {
  const config::Settings& settings;
  const config::ModelShape& shape;
  std::int64_t rows = 1;           // rows of the batch in one pass
  std::int64_t expert_shards = 1;  // shards of the expert dim in activations
  const mesh::Mesh* mesh = nullptr;
};

// Names of a model's inputs, [rows, length]. Training also has targets, and the order of the tokens in a row: documents in a row have
// positions of their own, and the tokens of a row may be stored in another order. If experts are drawn at random, there are also the
// tokens' numbers and the layers' keys, [layers, 2]; see draws.h. Inputs of multi-token prediction: see ahead.h.
namespace inputs {
inline constexpr const char* tokens = "inputs";
inline constexpr const char* targets = "targets";
inline constexpr const char* order = "inputs_order";
inline constexpr const char* positions = "inputs_position";
inline constexpr const char* segments = "inputs_segmentation";
inline constexpr const char* target_segments = "targets_segmentation";
inline constexpr const char* numbers = "inputs_number";
inline constexpr const char* draw_keys = "draw_keys";
}  // namespace inputs

// Names of a model's results.
namespace results {
// As reported: cross entropy per position plus the losses below, or these alone, see config::leaves_out_entropy.
inline constexpr const char* loss = "loss";
inline constexpr const char* entropy_sum = "entropy_sum";  // cross entropy summed over the positions that count
inline constexpr const char* positions = "positions";      // the number of positions that count
inline constexpr const char* z_loss = "z_loss";            // the part of the entropy per position that z_loss_multiplier makes, with one
inline constexpr const char* logits = "logits";
// The losses beside the entropy, each only for a model that has it: of experts' balance and of the indexer, means over the layers, and of
// multi-token prediction, see prediction.h.
inline constexpr const char* balance_loss = "balance_loss";
inline constexpr const char* mtp_loss = "mtp_loss";
inline constexpr const char* index_loss = "index_loss";
inline constexpr std::array losses_beside{balance_loss, mtp_loss, index_loss};
inline constexpr const char* expert_load = "expert_load";    // [MoE layers, E + 1]: tokens of each expert, then dropped choices
inline constexpr const char* highest_scores = "highest_scores";  // [layers, heads]; only with use_qk_clip
inline constexpr const char* guesses = "guesses";            // the likeliest next words; this and the next with mtp_eval_target_module
inline constexpr const char* guesses_ahead = "guesses_ahead";  // those of the module that this key names
}  // namespace results

// Added to the number of positions that a sum of losses is divided by, as in MaxText.
inline constexpr double kPositionsOffset = 1e-8;

graph::Graph build_model(const ModelRequest& request);

struct DecodeShape {
  std::int64_t new_tokens = 1;   // per row and run: 1 in decode, the prompt's length in prefill
  std::int64_t cache_slots = 1;  // positions per row that the KV cache has room for
  bool gives_logits = true;      // if false, tokens are only written to the cache, and nothing is computed that this does not need
  std::int64_t most_new_tokens = 512;  // of all programs that share the cache
};

// The same model on new tokens of rows whose earlier tokens are in the KV cache: from tokens, positions and segments to logits. The cache
// consists of states, each with a result of the same name, its next value. They start as zeros, which puts every slot in the segment of
// padding. Layers that see only the nearest tokens cache no more of them than that takes.
graph::Graph build_decode_model(const ModelRequest& request, const DecodeShape& shape);

}  // namespace moesh::models
