// Takes parameters and moments out of a checkpoint, whatever layout, rules and kind of stacks it was saved under.
#pragma once

#include "backend/workers.h"
#include "store/checkpoint.h"
#include "train/trainer.h"

namespace moesh::train {

enum class Restored { parameters, all };

// Refuses what does not fit.
void check_fit(const Trainer& trainer, const store::Checkpoint& checkpoint, Restored what);

// Of one that fits. When that fails on the way, the trainer is neither as it was nor as it should be.
void restore(Trainer& trainer, store::Checkpoint& checkpoint, Restored what, backend::Workers& workers);

}  // namespace moesh::train
