// The parts of attention that a key asks for in families that heed it.
#pragma once

#include "config/block.h"

namespace moesh::config {

// Whether attention_bias and use_qk_norm add what they say. MaxText's layers of most families do not heed them; with
// bias_and_norm_anywhere all do whose attention can have such a part, as in Hugging Face's models.
bool takes_attention_bias(const Settings& settings);
bool takes_head_norms(const Settings& settings);

// Whether one of the two asks for a part that only bias_and_norm_anywhere gives.
bool asks_for_parts_anywhere(const Settings& settings);

// Whether the family scales scores; otherwise the query's kernel is scaled instead.
bool has_own_scale(Block block);

// Whether use_qk_norm says how large query kernels are at first.
bool sizes_queries_by_norm(const Settings& settings);

}  // namespace moesh::config
