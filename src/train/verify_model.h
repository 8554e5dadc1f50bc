// Holds a Hugging Face model on this engine against what was recorded of it.
#pragma once

#include "train/recorded_model.h"
#include "train/verify.h"

namespace moesh::train {

inline constexpr double kLogitsOfModel =
    1e-4;  // how far one of them may be off; two ways of one engine are a fifth of that apart

// Loss, logits, gradients by the names of the weights, and how many tokens each expert is sent.
Findings verify_model(const RecordedModel& recorded, const Subject& subject, backend::Workers& workers);

}  // namespace moesh::train
