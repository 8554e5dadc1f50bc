// Continues recorded prompts token by token through the KV cache, and compares tokens and logits with the recorded ones.
#pragma once

#include "models/model.h"
#include "train/verify_model.h"

namespace moesh::decode {

// Runs each prompt in all rows of the request. If the layout can train but not decode, the findings say so.
train::Findings verify_tokens(const train::RecordedModel& recorded, const models::ModelRequest& request,
                                          const mesh::Topology& target, backend::Workers& workers);

}  // namespace moesh::decode
