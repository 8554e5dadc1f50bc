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
  Shape shape = rows.shape();
  shape[1] = slots;
  const Tensor before = kept_state(builder, name, std::move(shape), rows.dtype(), labels);
  return keep_state(builder, name, before, write_cache(builder, before, {rows, positions}, {.wraps = slots < context.cache_slots}),
                    std::move(labels));
}

Tensor write_cache(Builder& builder, Tensor cache, const std::vector<Tensor>& rows_and_slots, graph::CacheWriteOf of) {
  const graph::Scope scope(builder, "cache");
  return graph::cache_write(cache, rows_and_slots, of);
}

Tensor kept_state(Builder& builder, const std::string& name, Shape shape, DType dtype, Labels labels) {
  const graph::Scope scope(builder, "cache");
  return builder.state(name, std::move(shape), dtype, std::move(labels));
}

Tensor keep_state(Builder& builder, const std::string& name, Tensor before, Tensor after, Labels labels) {
  const graph::Scope scope(builder, "cache");
  // Constrained because the ops that read it may want another layout.
  const Tensor kept = constrain(name + "_kept", after, std::move(labels));
  builder.keep(before, kept);
  return kept;
}

ChosenRows chosen_rows(Builder& builder, Tensor chosen, Tensor cache, Tensor order, Tensor segments, std::int64_t first,
                       std::int64_t keys) {
  Shape shape = cache.shape();
  shape[1] = first + keys;
  const graph::ChosenRowsOf of{first};
  const std::pair<Shape, DType> of_tokens{{shape[0], shape[1]}, DType::int32};
  const std::vector<Tensor> tokens =
      builder.add(graph::Op::chosen_rows, "chosen_tokens", {chosen, order, segments}, of, {of_tokens, of_tokens});
  return {builder.add_one(graph::Op::chosen_rows, "chosen", {chosen, cache}, of, shape, cache.dtype()), tokens[0], tokens[1]};
}

}  // namespace moesh::nn
