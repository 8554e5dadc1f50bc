// What every layer is told: the model's shape, the batch it works on, and the values that all layers read.
#pragma once

#include <cstdint>

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
  const mesh::Mesh* mesh = nullptr;  // what regions are written for; null: one device
  std::int64_t cache_slots = 0;      // positions that a row's KV cache has room for; 0: there is none

  enum class Mode { train, prefill, decode };
  Mode mode() const { return cache_slots == 0 ? Mode::train : length > 1 ? Mode::prefill : Mode::decode; }
  bool trains() const { return mode() == Mode::train; }

  // How a value lies that is asked for so; axes of size 1 left out.
  sharding::Spec spec_of(const sharding::Constraint& constraint) const;
};

// What layers are told of the tokens, [B, S]: positions turn queries and keys, the order in a row says what comes before what.
// And of those that attention reads, [B, slots]; absent where they are the same.
struct Tokens {
  Tensor positions;
  Tensor order;
  Tensor segments;
  Tensor key_order;
  Tensor key_segments;
  // Only where experts are drawn at random: each token's number in the global batch, and the keys of the draws, two numbers for
  // each layer that is still to come, [layers, 2]; in a layer its own, [2].
  Tensor numbers = {};
  Tensor draw_keys = {};
};

// What a parameter is kept in that is read in one type: weight_dtype where it is trained, else without bits that nobody reads.
DType kept_dtype(const Context& context, DType read_in);
// A parameter as it is read.
Tensor parameter(Builder& builder, const Context& context, const std::string& name, Shape shape, graph::ParameterOf of, DType read_in);
// In the compute type.
Tensor parameter(Builder& builder, const Context& context, const std::string& name, Shape shape, graph::ParameterOf of);

// Initializers: a matrix whose outputs sum `fan_in` inputs, and constants.
graph::Initializer fan_in(std::int64_t inputs, double divisor = 1);
graph::Initializer moe_fan_in(const Context& context, std::int64_t inputs);  // in MoE blocks: by dense_init_scale
graph::Initializer ones();
graph::Initializer zeros();

// The residual stream between blocks.
Tensor constrain_residual(const std::string& name, Tensor x);

}  // namespace moesh::nn
