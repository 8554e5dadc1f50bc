// A training step laid out on a mesh.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "mesh/topology.h"
#include "partition/partition.h"
#include "sharding/layout.h"
#include "train/step.h"

namespace moesh::train {

struct StepPrograms {
  graph::Graph gradients;
  graph::Graph update;
  std::vector<partition::Choice> choices;
};

// `model_results`: how many of the gradient graph's results are the model's own; gradients come to lie as their parameters do.
StepPrograms partition_step(const graph::Graph& gradients, const graph::Graph& update, const std::vector<Trained>& parameters,
                            std::size_t model_results, const sharding::Layout& layout, const mesh::Topology& target);

}  // namespace moesh::train
