// A training step as programs: the gradients of a model and the update of its parameters, laid out on a mesh.
#pragma once

#include <vector>

#include "config/settings.h"
#include "graph/graph.h"
#include "mesh/topology.h"
#include "partition/partition.h"
#include "run/footprint.h"
#include "sharding/layout.h"
#include "train/step.h"

namespace moesh::train {

// The devices that train, and how the model lies on them.
struct Where {
  const sharding::Layout& layout;
  const mesh::Topology& target;
};

struct StepPrograms {
  mesh::Mesh mesh{{}};
  std::vector<Trained> parameters;
  std::size_t model_results = 0;  // of the gradient program's results these are the model's own, gradients follow
  std::int64_t microbatches = 1;  // whose gradients are summed
  graph::Graph gradients;
  graph::Graph update;
  std::vector<partition::Choice> choices;  // of the partitioner; none on one device
};

// Gradients come to lie as their parameters do.
StepPrograms step_programs(const graph::Graph& model, const config::Settings& settings, const Where& where);
// On one device.
StepPrograms step_programs(const graph::Graph& model, const config::Settings& settings);

// The most that training will hold: parameters, moments and what values take within a step.
run::Footprint footprint_of(const StepPrograms& programs);

}  // namespace moesh::train
