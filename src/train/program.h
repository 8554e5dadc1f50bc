// A training step as a program: its graph, laid out on a mesh.
#pragma once

#include <vector>

#include "config/batch_sizes.h"
#include "config/settings.h"
#include "graph/graph.h"
#include "mesh/topology.h"
#include "partition/partition.h"
#include "plan/plan.h"
#include "sharding/layout.h"
#include "train/step.h"

namespace moesh::train {

// The devices that train, and how the model is laid out on them.
struct Where {
  const sharding::Layout& layout;
  const mesh::Topology& target;
};

struct StepProgram {
  mesh::Mesh mesh{{}};
  std::vector<Trained> parameters;
  std::int64_t microbatches = 1;
  int owners = 1;   // number of owners of the devices, see run::ProgramOptions
  int self = -1;    // the owner in this process; -1: all owners
  graph::Graph graph;
  plan::Plan plan;  // what is run
  std::vector<partition::Choice> choices;  // made by the partitioner; none on one device
  Reduction reduction = Reduction::each_pass;
};

// A model, how it is to run, and where.
struct Subject {
  const graph::Graph& model;
  const config::Settings& settings;
  config::BatchSizes batch;
  Where where;
};

// Parameters, moments and gradients are laid out as the layout says. With reduce_gradients=auto, gradients are reduced once if that is
// predicted to be faster on chips, and fits. `see` is shown the graph after each of graph_passes(); on one
// device expand changes nothing, and partition only takes out constraints.
StepProgram step_program(const graph::Graph& model, const config::Settings& settings, const Where& where, const Keep& keep = {},
                         const SeeGraph& see = {});

// The model's losses on a batch, without any training: the results are entropy_sum, positions, z_loss, balance_loss and index_loss of
// models::results, and with mtp_eval_target_module mtp_loss, guesses and guesses_ahead. Parameters are laid out as in training.
StepProgram evaluation_program(const Subject& subject, const StepProgram& step);

// The most memory that training will hold, in bytes: parameters, moments, and the values within a step.
struct Footprint {
  std::int64_t device = 0;
  std::int64_t process = 0;  // replicas counted once, and the batch as it is read
  std::int64_t device_scratch = 0, process_scratch = 0;  // the part of them that is not kept from step to step
};
Footprint footprint_of(const StepProgram& program);
// The footprint with another program on the same parameters. The two share their scratch memory if the step's is large enough.
Footprint with_beside(Footprint step, const Footprint& other);

}  // namespace moesh::train
