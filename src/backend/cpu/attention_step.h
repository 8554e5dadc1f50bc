// Attention of one query a row, as a step of decoding has it.
#pragma once

#include "backend/cpu/attention_panel.h"

namespace moesh::backend::cpu {

inline constexpr int kMostStepHeads = 8;  // that share one of keys; more of them pay for packing it

inline bool is_attention_step(const AttentionShape& shape) { return shape.queries == 1 && shape.sharing <= kMostStepHeads; }

void attention_step(const KernelCall& call);

}  // namespace moesh::backend::cpu
