#include "nn/cache.h"

#include <algorithm>

#include "base/rounding.h"

namespace moesh::nn {
namespace {

constexpr std::int64_t kUnit = 16;  // slots, so that caches are of sizes that divide well

// How many keys a query sees at most; 0: all before it.
std::int64_t reach_of(const config::LayerShape& layer) {
  if (layer.window == 0 || layer.chunk == 0) return std::max(layer.window, layer.chunk);
  return std::min(layer.window, layer.chunk);
}

}  // namespace

std::int64_t slots_of(const Context& context, const config::LayerShape& layer) {
  return reach_of(layer) == 0 ? context.cache_slots : near_slots(context);
}

std::int64_t near_slots(const Context& context) {
  std::int64_t reach = 0;
  for (const config::LayerShape& layer : context.model.of_cycle) reach = std::max(reach, reach_of(layer));
  if (reach == 0) return context.cache_slots;
  return std::min(context.cache_slots, round_up(reach + context.most_new_tokens - 1, kUnit));
}

Tensor update_cache(Builder& builder, const Context& context, const std::string& name, Tensor rows, Tensor positions, std::int64_t slots,
                    Labels labels) {
  const graph::Scope scope(builder, "cache");
  Shape shape = rows.shape();
  shape[1] = slots;
  const Tensor before = builder.state(name, std::move(shape), rows.dtype(), labels);
  // Constrained to the layout in which it is kept, because the ops that read it may want another.
  const Tensor written = graph::cache_write(before, rows, positions, {.wraps = slots < context.cache_slots});
  const Tensor after = constrain(name + "_kept", written, std::move(labels));
  builder.keep(before, after);
  return after;
}

}  // namespace moesh::nn
