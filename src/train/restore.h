// Takes parameters and moments out of a checkpoint, whatever layout, rules and kind of stacks it was saved under.
#pragma once

#include <string>
#include <vector>

#include "backend/workers.h"
#include "store/checkpoint.h"
#include "store/model_tensors.h"
#include "train/trainer.h"

namespace moesh::train {

// A tensor that is to be filled: what it is, as others see it, and where it lies.
struct Target {
  store::ModelTensor tensor;
  std::vector<store::Part> parts;
};
std::vector<store::ModelTensor> tensors_of(const std::vector<Target>& targets);
std::vector<store::ModelTensor> tensors_of(const store::Index& index);

enum class Restored { parameters, all };
std::vector<Target> targets_in(const Trainer& trainer, Restored what);

// Refuses what does not fit.
void check_fit(const std::vector<Target>& targets, const store::Checkpoint& checkpoint);

// Of one that fits. When that fails on the way, the targets are neither as they were nor as they should be.
void restore(const std::vector<Target>& targets, store::Checkpoint& checkpoint, backend::Workers& workers);

}  // namespace moesh::train
