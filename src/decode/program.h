// The model on new tokens, laid out on a mesh.
#pragma once

#include <vector>

#include "config/model_shape.h"
#include "mesh/topology.h"
#include "models/model.h"
#include "partition/partition.h"
#include "plan/plan.h"

namespace moesh::decode {

struct Program {
  mesh::Mesh mesh{{}};
  std::int64_t vocabulary = 0;
  graph::Graph graph;
  std::vector<partition::Choice> choices;  // of the partitioner; none on one device
  // For models that send tokens to random experts: tokens are numbered as in rows of this length.
  std::int64_t row_length = 1;
  std::int64_t draw_seed = 0;
};

// Parameters lie as in training; caches as their labels and the rules say, before and after alike, so that programs for prompts
// and for single tokens share them. The few numbers that come with the tokens are whole on every device.
Program make_program(const models::ModelRequest& request, const models::DecodeShape& shape, const mesh::Topology& target);

// As it runs: with what follows each other fused.
plan::Plan plan_of(const Program& program);

}  // namespace moesh::decode
