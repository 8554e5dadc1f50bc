// Takes parameters and moments out of a checkpoint, whatever layout, rules and kind of stacks it was saved under.
#pragma once

#include <string>
#include <vector>

#include "backend/workers.h"
#include "store/checkpoint.h"
#include "train/trainer.h"

namespace moesh::train {

enum class Restored { parameters, all };

// What a checkpoint does not have for this run, before anything is read.
struct Fit {
  std::vector<std::string> missing;  // tensors
  std::vector<std::string> other;    // tensors of other shapes, in words
  std::vector<std::string> unused;   // parameters of the checkpoint, layer by layer, that the run does not have
};
Fit fit_of(const Trainer& trainer, const store::Index& index, Restored what);

// Refuses what does not fit.
void check_fit(const Trainer& trainer, const store::Checkpoint& checkpoint, Restored what);

// Of one that fits. When that fails on the way, the trainer is neither as it was nor as it should be.
void restore(Trainer& trainer, store::Checkpoint& checkpoint, Restored what, backend::Workers& workers);

}  // namespace moesh::train
