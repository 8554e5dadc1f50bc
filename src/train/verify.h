// Holds a run of this engine against a recorded one, quantity by quantity.
#pragma once

#include <string>
#include <vector>

#include "config/model_shape.h"
#include "train/comparison.h"
#include "train/reference_run.h"
#include "train/trainer.h"

namespace moesh::train {

// What a run was not held to.
struct Unheld {
  std::string quantities;  // "logits, gradients"
  std::string why;
};

struct Findings {
  std::vector<Verdict> verdicts;
  std::vector<Unheld> unheld;
};

// Follows the steps of the run's curve. A run on more rows than the layout trains is followed with the first of them, as the layout
// would load them.
Findings verify(const ReferenceRun& run, const Subject& subject, backend::Workers& workers);

// Holds a layout against one device: the same initial parameters and batches, step by step.
std::vector<Verdict> verify_against(const Subject& one_device, const Subject& layout, std::int64_t steps, backend::Workers& workers);

}  // namespace moesh::train
