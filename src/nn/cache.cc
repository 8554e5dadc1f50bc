#include "nn/cache.h"

namespace moesh::nn {

Tensor update_cache(Builder& builder, const Context& context, const std::string& name, Tensor rows, Tensor positions, Labels labels) {
  const graph::Scope scope(builder, "cache");
  Shape shape = rows.shape();
  shape[1] = context.cache_slots;
  const Tensor before = builder.state(name, std::move(shape), rows.dtype(), labels);
  // Constrained to the layout in which it is kept, because the ops that read it may want another.
  const Tensor after = constrain(name + "_kept", graph::cache_write(before, rows, positions), std::move(labels));
  builder.keep(before, after);
  return after;
}

}  // namespace moesh::nn
