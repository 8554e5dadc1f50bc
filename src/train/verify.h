// Compares a run of this engine with a recorded one, quantity by quantity.
#pragma once

#include <string>
#include <vector>

#include "config/model_shape.h"
#include "train/comparison.h"
#include "train/reference_run.h"
#include "train/trainer.h"

namespace moesh::train {

// Quantities on which a run was not compared.
struct Unheld {
  std::string quantities;  // "logits, gradients"
  std::string why;
};

struct Findings {
  std::vector<Verdict> verdicts;
  std::vector<Unheld> unheld;
};

// Follows the steps of the run's curve. If the run has more rows than the layout trains, it is followed with the first of them, as
// the layout would load them.
Findings verify(const ReferenceRun& run, const Subject& subject, backend::Workers& workers);

// Compares a layout with one device on the same initial parameters and batches, step by step.
std::vector<Verdict> verify_against(const Subject& one_device, const Subject& layout, std::int64_t steps, backend::Workers& workers);

}  // namespace moesh::train
