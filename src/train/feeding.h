// Batches and numbers as the inputs of a program.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "config/settings.h"
#include "run/program.h"

namespace moesh::train {

// Rows of a global batch: "inputs", "targets", "inputs_position", "inputs_order", "inputs_segmentation" and
// "targets_segmentation", [B, S] each.
using Batch = std::map<std::string, run::Array>;

// Rows go to microbatches in turns, and their positions stand in the order that context parallelism has them in.
class Feeding {
 public:
  Feeding(const config::Settings& settings, std::int64_t microbatches, const mesh::Mesh& mesh);

  // To all inputs of a program, for a step.
  void feed(const run::Program& program, const Batch& batch, std::int64_t step, run::Pool& pool) const;
  // What a program made of each position, [microbatches, rows, length, ...], in the batch's order.
  run::Array as_given(const run::Array& made, run::Pool& pool) const;

 private:
  run::Array number(const std::string& name, const Shape& shape, std::int64_t step, run::Pool& pool) const;
  run::Array rows(const Batch& batch, const std::string& name, const run::Placed& place, run::Pool& pool) const;

  config::Settings settings_;
  std::int64_t microbatches_;
  std::vector<std::int64_t> order_;  // of the positions of a row; empty: as they come
};

}  // namespace moesh::train
