// Holds a run of this engine against a recorded one, quantity by quantity.
#pragma once

#include <string>
#include <vector>

#include "config/model_shape.h"
#include "train/reference_run.h"
#include "train/trainer.h"

namespace moesh::train {

struct Verdict {
  std::string quantity;  // "loss", "logits", "gradients", "parameters after 10 steps"
  double error = 0;      // the largest, relative
  double tolerance = 0;
  std::string worst;     // where it is: a step, a tensor

  bool passes() const { return error <= tolerance; }  // false for NaN
};

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
