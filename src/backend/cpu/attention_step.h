// Attention of one query per row of the batch, as in a decoding step.
#pragma once

#include "backend/cpu/attention_panel.h"

namespace moesh::backend::cpu {

inline constexpr int kMostStepHeads = 8;  // query heads that share a key head; with more of them, packing the keys pays off

inline bool is_attention_step(const AttentionShape& shape) { return shape.queries == 1 && shape.sharing <= kMostStepHeads; }

void attention_step(const KernelCall& call);

}  // namespace moesh::backend::cpu
