// Goes on from recorded prompts, token by token through the KV cache, and holds tokens and logits against what was
// recorded.
#pragma once

#include <vector>

#include "models/model.h"
#include "train/verify_model.h"

namespace moesh::decode {

// On as many rows as the request says, each of them the same prompt. A layout that trains, and single tokens cannot lie in, is told.
train::Findings verify_tokens(const train::RecordedModel& recorded, const models::ModelRequest& request,
                                          const mesh::Topology& target, backend::Workers& workers);

}  // namespace moesh::decode
