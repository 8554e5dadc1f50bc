// Compares a Hugging Face model on this engine with the numbers recorded of it.
#pragma once

#include "train/recorded_model.h"
#include "train/verify.h"

namespace moesh::train {

// Compares loss, logits, gradients by the names of the weights, and how many tokens are sent to each expert.
Findings verify_model(const RecordedModel& recorded, const Subject& subject, backend::Workers& workers);

}  // namespace moesh::train
