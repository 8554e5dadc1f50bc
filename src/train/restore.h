// Restores parameters and moments from a checkpoint, whatever layout, rules and stacking of layers it was saved with.
#pragma once

#include <vector>

#include "backend/workers.h"
#include "store/checkpoint.h"
#include "store/model_tensors.h"
#include "train/trainer.h"

namespace moesh::train {

// A tensor to be filled: its name and shape in the model, and where it lies in memory.
struct Target {
  store::ModelTensor tensor;
  std::vector<store::Part> parts;
};
std::vector<store::ModelTensor> tensors_of(const std::vector<Target>& targets);
std::vector<store::ModelTensor> tensors_of(const store::Index& index);

enum class Restored { parameters, all };
std::vector<Target> targets_in(const Trainer& trainer, Restored what);

// What a checkpoint may have that no target takes. Modules of multi-token prediction are of no use outside training.
enum class Unread { nothing, prediction_modules };
// Refuses a checkpoint that does not fit the targets, before anything is read.
void check_fit(const std::vector<Target>& targets, const store::Checkpoint& checkpoint, Unread may_be_left = Unread::nothing);

// Reads a checkpoint that fits. If it fails midway, the targets are partly overwritten and must not be used.
void restore(const std::vector<Target>& targets, store::Checkpoint& checkpoint, backend::Workers& workers);

}  // namespace moesh::train
