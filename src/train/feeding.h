// Feeds batches and numbers to the inputs of a program.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "config/settings.h"
#include "models/ahead.h"
#include "run/program.h"
#include "train/spikes.h"

namespace moesh::train {

// The rows of a global batch by the name of the input: "inputs", "targets", "inputs_position", "inputs_order",
// "inputs_segmentation" and "targets_segmentation", [B, S] each.
using Batch = std::map<std::string, run::Array>;

// What the numbers of a step are made from.
struct StepNumbers {
  std::int64_t step = 0;
  std::int64_t update = 0;  // the step less the steps that the optimizer does not count
  SpikeLimits limits = {};
};

// Deals rows out to microbatches round-robin, and puts their positions in the order that context parallelism uses.
class Feeding {
 public:
  Feeding(const config::Settings& settings, std::int64_t microbatches, const mesh::Mesh& mesh);

  // Fills all inputs of a program for a step.
  void feed(const run::Program& program, const Batch& batch, const StepNumbers& numbers, run::Pool& pool) const;
  // Brings what a program made for each position, [microbatches, rows, length, ...], back to the order of the batch.
  run::Array as_given(const run::Array& made, run::Pool& pool) const;

 private:
  // Null for an input that takes no number.
  run::Array number(const std::string& name, const Shape& shape, const StepNumbers& numbers, run::Pool& pool) const;
  run::Array rows(const Batch& batch, const std::string& name, const run::Placed& place, run::Pool& pool) const;

  config::Settings settings_;
  std::int64_t microbatches_;
  std::map<std::string, models::InputAhead> ahead_;  // what modules of multi-token prediction take, by the names of the inputs
  std::vector<std::int64_t> order_;  // permutation of a row's positions; empty: they keep their order
};

}  // namespace moesh::train
