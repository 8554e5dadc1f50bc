// What every layer is given: the model's shape, the batch it works on, and the values that all layers read.
#pragma once

#include <cstdint>
#include <vector>

#include "config/model_shape.h"
#include "graph/builder.h"

namespace moesh::nn {

using graph::Builder;
using graph::Role;
using graph::Tensor;

struct Context {
  const config::Settings& settings;
  const config::ModelShape& model;
  std::int64_t rows = 1;           // B
  std::int64_t length = 1;         // S
  std::int64_t expert_shards = 1;  // shards of the expert dim in activations
  const mesh::Mesh* mesh = nullptr;  // the mesh that regions are written for; null: one device
  std::int64_t cache_slots = 0;      // positions that a row's KV cache has room for; 0: no cache
  std::int64_t balanced_over = 1;    // the shards of a row among which its order balances causal work; 1: rows are in order
  std::int64_t most_new_tokens = 1;  // tokens of a row that any program adds to the cache at once
  std::int64_t batch_parts = 1;      // parts of the rows that go through the layers in turn
  bool is_part = false;              // the rows are a part of the batch that takes turns with others

  enum class Mode { train, prefill, decode };
  Mode mode() const { return cache_slots == 0 ? Mode::train : length > 1 ? Mode::prefill : Mode::decode; }
  bool trains() const { return mode() == Mode::train; }

  // The layout that a constraint asks for, without axes of size 1.
  sharding::Spec spec_of(const sharding::Constraint& constraint) const;
};

// What is known of windows of consecutive tokens, of which a pool is made each, in the words of graph::WindowsOf: N in a row, and W that
// are pooled here. In decoding these are the windows of new tokens.
struct Windows {
  std::int64_t tokens = 0;  // of a window
  std::int64_t count = 0;   // N; without any, the others are absent
  Tensor last = {}, segments = {};     // [B, N]
  Tensor positions = {}, go_on = {};   // [B, W]; go_on is 1 or 0, float32: whether a window begins where the one before it ends
  // Only in decoding: the slots of the new tokens among those that are kept for their windows, [B, S], and of the pools, [B, W]; order and
  // segments of the keys that attention reads, [B, slots + N].
  Tensor token_slots = {}, pool_slots = {}, key_order = {}, key_segments = {};
};

// What layers know about the tokens, [B, S]: the positions by which queries and keys are rotated, and the order of tokens within a row, for
// the causal mask. Then order and segments of the keys that attention reads, [B, slots]; absent if these are of the same tokens.
struct Tokens {
  Tensor positions;
  Tensor order;
  Tensor segments;
  Tensor key_order;
  Tensor key_segments;
  Tensor near_key_order = {};  // of keys that are fewer than slots: of the nearest tokens, or chosen for a query
  Tensor near_key_segments = {};
  // Only if experts are drawn at random: each token's number in the global batch, and the keys of the draws, two numbers for each of the
  // remaining layers, [layers, 2]; within a layer its own key, [2].
  Tensor numbers = {};
  Tensor draw_keys = {};
  Tensor ids = {};  // only if some experts are those of a token of the vocabulary
  std::vector<Windows> windows = {};  // only in decoding: for each number of tokens that some layer pools
};

// The type in which a parameter is kept that is only read as `read_in`: weight_dtype in training, else the narrower of the two, because
// nothing reads the other bits.
DType kept_dtype(const Context& context, DType read_in);
// A parameter, cast to the type in which it is read.
Tensor parameter(Builder& builder, const Context& context, const std::string& name, Shape shape, graph::ParameterOf of, DType read_in);
// The same, read in the compute type.
Tensor parameter(Builder& builder, const Context& context, const std::string& name, Shape shape, graph::ParameterOf of);

// Initializers: for a matrix whose outputs sum that many inputs each, and constants.
graph::Initializer fan_in(std::int64_t inputs, double divisor = 1);
graph::Initializer normal_fan_in(std::int64_t inputs, double divisor = 1);   // for attention and streams: not cut, as in MaxText
graph::Initializer moe_fan_in(const Context& context, std::int64_t inputs);  // for MoE blocks: scaled by dense_init_scale
graph::Initializer ones();
graph::Initializer zeros();

// The residual stream between blocks.
Tensor constrain_residual(const std::string& name, Tensor x);

}  // namespace moesh::nn
