// A training step as a program: its graph, laid out on a mesh.
#pragma once

#include <vector>

#include "config/model_shape.h"
#include "config/settings.h"
#include "graph/graph.h"
#include "mesh/topology.h"
#include "partition/partition.h"
#include "plan/plan.h"
#include "sharding/layout.h"
#include "train/step.h"

namespace moesh::train {

// The devices that train, and how the model lies on them.
struct Where {
  const sharding::Layout& layout;
  const mesh::Topology& target;
};

struct StepProgram {
  mesh::Mesh mesh{{}};
  std::vector<Trained> parameters;
  std::int64_t microbatches = 1;
  int owners = 1;   // of the devices, see run::ProgramOptions
  int self = -1;    // the one that is in this process; all of them where that is -1
  graph::Graph graph;
  plan::Plan plan;  // what runs
  std::vector<partition::Choice> choices;  // of the partitioner; none on one device
};

// A model as it is to run, and where.
struct Subject {
  const graph::Graph& model;
  const config::Settings& settings;
  config::BatchSizes batch;
  Where where;
};

// Parameters, moments and gradients lie as the layout says. `see` is shown the graph after each of graph_passes(); on one device
// expand changes nothing, and partition takes constraints out.
StepProgram step_program(const graph::Graph& model, const config::Settings& settings, const Where& where, const Keep& keep = {},
                         const SeeGraph& see = {});

// The model's losses of a batch, without what trains it: results are entropy_sum, positions and balance_loss of models::results.
// Parameters lie as in training.
StepProgram evaluation_program(const Subject& subject);

// The most that training will hold: parameters, moments and what values take within a step.
struct Footprint {
  std::int64_t device = 0;
  std::int64_t process = 0;  // equal shards once, and the batch as it is read
  std::int64_t device_scratch = 0, process_scratch = 0;  // of them, what does not stay from step to step
};
Footprint footprint_of(const StepProgram& program);
// With another program on the same parameters. They share their scratch where that of the step is large enough.
Footprint with_beside(Footprint step, const Footprint& other);

}  // namespace moesh::train
