// The numbers of a step or an evaluation under the reference's names, as curves and as lines of a file have them.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "train/evaluation.h"
#include "train/run_words.h"
#include "train/trainer.h"

namespace moesh::train {

using Scalars = std::vector<std::pair<std::string_view, double>>;  // "learning/loss"

Scalars scalars_of(const StepMetrics& metrics, const StepSpeed& speed);
Scalars scalars_of(const EvalMetrics& metrics);

}  // namespace moesh::train
