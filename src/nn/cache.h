// The KV cache: what attention keeps of earlier tokens, so that each token is processed only once.
#pragma once

#include "nn/context.h"

namespace moesh::nn {

// The slots of a layer's cache for each row: one for each position or, if its queries see only the nearest keys, near_slots.
std::int64_t slots_of(const Context& context, const config::LayerShape& layer);

// The slots that hold what such layers of the model see while new tokens are added; as many for all of them. One for each position if there
// are none, or if they would need more.
std::int64_t near_slots(const Context& context);

// Writes the new tokens' rows, [B, S, ...], into a cache, and returns the rows of the cached tokens, [B, slots, ...]. Of fewer slots than
// positions the oldest are written over. The cache is a state of the program.
Tensor update_cache(Builder& builder, const Context& context, const std::string& name, Tensor rows, Tensor positions, std::int64_t slots,
                    Labels labels);

// A state that a program keeps, and its next value, which is returned in the layout in which it is kept.
Tensor kept_state(Builder& builder, const std::string& name, Shape shape, DType dtype, Labels labels);
Tensor keep_state(Builder& builder, const std::string& name, Tensor before, Tensor after, Labels labels);
// graph::cache_write to such a state.
Tensor write_cache(Builder& builder, Tensor cache, const std::vector<Tensor>& rows_and_slots, graph::CacheWriteOf of);

// What a single new token reads if keys are chosen for it: the first rows of a cache, [B, slots, ...], and behind them those of so many
// chosen keys, with the order and segments of all of these.
struct ChosenRows {
  Tensor rows, order, segments;
};
ChosenRows chosen_rows(Builder& builder, Tensor chosen, Tensor cache, Tensor order, Tensor segments, std::int64_t first, std::int64_t keys);

}  // namespace moesh::nn
