// Builds the model's forward pass over new tokens with a KV cache, laid out on a mesh.
#pragma once

#include <vector>

#include "config/model_shape.h"
#include "mesh/topology.h"
#include "models/model.h"
#include "partition/partition.h"
#include "plan/plan.h"
#include "sharding/layout.h"

namespace moesh::decode {

struct Program {
  mesh::Mesh mesh{{}};
  std::int64_t vocabulary = 0;
  graph::Graph graph;
  std::vector<partition::Choice> choices;  // the partitioner's choices; none on one device
  // For models that send tokens to random experts: tokens are numbered as if rows had this length.
  std::int64_t row_length = 1;
  std::int64_t draw_seed = 0;
};

// Parameters are laid out as in training, and caches as their labels and the rules say, alike before and after a step, so that programs
// for prompts and for single tokens share them. The token ids, positions and other integer inputs are replicated on every device.
Program make_program(const models::ModelRequest& request, const models::DecodeShape& shape, const mesh::Topology& target);

// The same for a model that is built and laid out.
Program make_program(const graph::Graph& model, const sharding::Layout& layout, const models::ModelRequest& request,
                     const mesh::Topology& target);

// The plan that runs, lowered after the fusion passes.
plan::Plan plan_of(const Program& program);

}  // namespace moesh::decode
