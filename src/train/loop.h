// The training loop: batches, steps, the lines that are printed and the files that are written.
#pragma once

#include <optional>
#include <string>

#include "backend/workers.h"
#include "config/batch_sizes.h"
#include "config/model_shape.h"
#include "graph/graph.h"
#include "train/trainer.h"

namespace moesh::train {

// What a run prints: everything, only its last lines, or the lines of its metrics file.
enum class Printed { all, ends, metrics };

struct TrainRequest {
  const config::Settings& settings;
  const config::ModelShape& shape;
  const graph::Graph& model;
  config::BatchSizes batch;
  Where where;
  std::int64_t devices = 1;
  std::string headline;
  std::string next = {};  // printed at the end: what to try next
  bool shows_audit = false;
  Printed printed = Printed::all;
  Company company = {};
  std::optional<std::int64_t> from = std::nullopt;  // step of the checkpoint to resume from, if not the newest
  std::optional<Subject> evaluated = std::nullopt;  // the same model on evaluation batches, if eval_interval asks for any
};

// Trains as the settings say. On an interrupt it ends early, after the current step. Returns the exit code.
int train(const TrainRequest& request, backend::Workers& workers);

}  // namespace moesh::train
