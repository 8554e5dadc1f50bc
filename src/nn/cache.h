// The KV cache: what attention keeps of earlier tokens, so that each token is processed only once.
#pragma once

#include "nn/context.h"

namespace moesh::nn {

// The slots of a layer's cache for each row: one for each position or, if its queries see only the nearest keys, as many as these take
// together with the tokens that are added at once.
std::int64_t slots_of(const Context& context, const config::LayerShape& layer);

// The same for the layer of the model that sees farthest, of those that see only the nearest keys; all slots if there is none or none that
// needs fewer. All such layers have as many.
std::int64_t near_slots(const Context& context);

// Writes the new tokens' rows, [B, S, ...], into a cache, and returns the rows of the cached tokens, [B, slots, ...]. Of fewer slots than
// positions the oldest are written over. The cache is a state of the program.
Tensor update_cache(Builder& builder, const Context& context, const std::string& name, Tensor rows, Tensor positions, std::int64_t slots,
                    Labels labels);

}  // namespace moesh::nn
