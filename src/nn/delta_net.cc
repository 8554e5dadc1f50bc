// Shape suffixes: B rows, S length, M embedding, F all heads' widths, G heads of keys, R heads of values for each, D a key's width, V a
// value's width, W tokens of the window, C channels of a head of keys: its key, its query and its R values.
#include "nn/delta_net.h"

#include <cmath>

#include "nn/cache.h"
#include "nn/norm.h"
#include "sharding/labels.h"

namespace moesh::nn {
namespace {

constexpr double kLengthEpsilon = 1e-6;

// A row's tokens are remembered in their order. Where context parallelism balances its work, a row of n shards is stored in 2 n pieces, of
// which each shard has one from the front and one from the end.
class RowOrder {
 public:
  explicit RowOrder(const Context& context) : shards_(context.balanced_over), piece_(context.length / (2 * shards_)) {}

  Tensor in_order(Tensor x) const {
    return rearranged(x, [&](std::int64_t i) { return i < shards_ ? 2 * i : 2 * (2 * shards_ - 1 - i) + 1; });
  }
  Tensor as_stored(Tensor x) const {
    return rearranged(x, [&](std::int64_t i) { return i % 2 == 0 ? i / 2 : 2 * shards_ - 1 - i / 2; });
  }

 private:
  template <typename From>
  Tensor rearranged(Tensor x, const From& from) const {
    if (shards_ == 1) return x;
    std::vector<Tensor> pieces;
    for (std::int64_t i = 0; i < 2 * shards_; ++i) pieces.push_back(slice(x, 1, from(i) * piece_, piece_));
    return graph::concat(pieces, 1);
  }

  std::int64_t shards_, piece_;
};

Tensor project_in(Builder& builder, const Context& context, const std::string& name, Tensor x_BSM, std::int64_t width) {
  const graph::Scope scope(builder, name);
  const std::int64_t emb = context.model.emb_dim;
  const Tensor weight_MF =
      parameter(builder, context, "kernel", {emb, width}, {{labels::embed, labels::gdn_head}, fan_in(emb), Role::delta_kernel});
  return einsum("", "bsm,mf->bsf", x_BSM, weight_MF);
}

// As in MaxText these have no labels, not even of their stack of layers, so that they are whole on every device.
Tensor unlabelled(Builder& builder, const Context& context, const std::string& name, Shape shape, graph::Initializer initial, Role role) {
  Labels none(shape.size(), labels::none);
  return parameter(builder, context, name, std::move(shape), {std::move(none), initial, role, graph::ParameterOf::Labelled::never});
}

// The weights of the window, in the order of the channels of heads rather than of all queries, all keys and all values.
Tensor window_weights(Builder& builder, const Context& context) {
  const config::DeltaShape& shape = context.model.delta;
  const std::int64_t groups = shape.key_heads, keys = groups * shape.key_dim, values = shape.value_heads * shape.value_dim;
  const graph::Scope scope(builder, "conv1d");
  const Tensor all = unlabelled(builder, context, "kernel", {shape.window, 1, 2 * keys + values}, fan_in(shape.window), Role::delta_conv);
  const auto part = [&](std::int64_t from, std::int64_t size) {
    return reshape(slice(all, 2, from, size), {shape.window, groups, size / groups});
  };
  return graph::concat({part(0, keys), part(keys, keys), part(2 * keys, values)}, 2);
}

Tensor convolve(Builder& builder, const Context& context, Tensor x_BSGC, const Tokens& tokens) {
  const Tensor weights_WGC = window_weights(builder, context);
  if (context.trains() || context.model.delta.window == 1)
    return builder.add_one(graph::Op::causal_conv, "conv", {x_BSGC, weights_WGC}, {}, x_BSGC.shape(), x_BSGC.dtype());
  Shape shape = x_BSGC.shape();
  shape[1] = weights_WGC.size(0) - 1;
  const Labels labels{labels::cache_batch, labels::none, labels::cache_heads, labels::none};
  const Tensor before = kept_state(builder, "window", shape, x_BSGC.dtype(), labels);
  const std::vector<Tensor> made = builder.add(graph::Op::causal_conv, "conv", {x_BSGC, weights_WGC, before, tokens.order, tokens.segments},
                                               {}, {{x_BSGC.shape(), x_BSGC.dtype()}, {shape, x_BSGC.dtype()}});
  keep_state(builder, "window", before, made[1], labels);
  return made[0];
}

// x, [B, S, G, D], with rows of length 1, scaled: a norm of the mean square with a constant scale.
Tensor of_length_one(Builder& builder, Tensor x, double scaled) {
  const auto dim = static_cast<double>(x.size(3));
  const Tensor scale = graph::fill(builder, scaled / std::sqrt(dim), {x.size(3)}, x.dtype());
  return rms_norm_with(builder, "length", x, scale, kLengthEpsilon / dim);
}

struct Memory {
  Tensor query_BSGD, key_BSGD, value_BSGRV, decay_BSGR, rate_BSGR;
};

// By what each token decays the memories: -exp(A_log) softplus(a + dt_bias), where the token makes a.
Tensor decays(Builder& builder, const Context& context, Tensor a_BSGR) {
  const Shape shape = a_BSGR.shape();
  const auto per_head = [&](const char* name, graph::Initializer initial) {
    return reshape(unlabelled(builder, context, name, {shape[2] * shape[3]}, initial, Role::delta_gate), {shape[2], shape[3]});
  };
  const Tensor speed_GR = unary(graph::Unary::exp, per_head("A_log", {graph::Initializer::Kind::log_uniform, 1, 1}));
  const Tensor step_BSGR = unary(graph::Unary::softplus, add_bias(a_BSGR, per_head("dt_bias", ones())));
  return cast(scale(multiply(broadcast(speed_GR, shape, {2, 3}), step_BSGR), -1), DType::float32);
}

Tensor read_memory(Builder& builder, const Context& context, const Memory& of, Tensor segments, Tensor order) {
  std::vector<Tensor> operands{of.query_BSGD, of.key_BSGD, of.value_BSGRV, of.decay_BSGR, of.rate_BSGR, segments};
  const Shape out = of.value_BSGRV.shape();
  const DType dtype = of.value_BSGRV.dtype();
  if (context.trains()) return builder.add_one(graph::Op::delta_rule, "delta_rule", operands, {}, out, dtype);
  const Shape shape{out[0], out[2], out[3], of.key_BSGD.size(3), out[4]};
  const Labels labels{labels::cache_batch, labels::cache_heads, labels::none, labels::none, labels::none};
  const Tensor before = kept_state(builder, "memory", shape, DType::float32, labels);
  operands.insert(operands.end(), {before, order});
  const std::vector<Tensor> made = builder.add(graph::Op::delta_rule, "delta_rule", operands, {}, {{out, dtype}, {shape, DType::float32}});
  keep_state(builder, "memory", before, made[1], labels);
  return made[0];
}

// The norm of each head, times silu of its gate, computed in float32.
Tensor gate_heads(Builder& builder, const Context& context, Tensor x_BSGRV, Tensor gate_BSGRV) {
  const graph::Scope scope(builder, "norm");
  const graph::Scope inner(builder, "rms_norm");
  const Tensor scale = parameter(builder, context, "scale", {x_BSGRV.shape().back()},
                                 {{labels::none}, ones(), Role::delta_norm_scale, graph::ParameterOf::Labelled::in_a_stack});
  const Tensor normed = rms_norm_with(builder, "norm", x_BSGRV, scale, context.model.norm_epsilon);
  const Tensor gate = unary(graph::Unary::silu, cast(gate_BSGRV, DType::float32));
  return cast(multiply(cast(normed, DType::float32), gate), x_BSGRV.dtype());
}

Tensor project_heads(Builder& builder, const Context& context, Tensor heads_BSF) {
  const graph::Scope scope(builder, "out_proj");
  const std::int64_t width = heads_BSF.size(2);
  const Tensor weight_FM = parameter(builder, context, "kernel", {width, context.model.emb_dim},
                                     {{labels::gdn_head, labels::embed}, fan_in(width), Role::delta_kernel});
  return tag(einsum("", "bsf,fm->bsm", heads_BSF, weight_FM), "out_proj");
}

}  // namespace

Tensor delta_net(Builder& builder, const Context& context, const std::string& name, Tensor x_BSM, const Tokens& tokens) {
  const graph::Scope scope(builder, name);
  const config::DeltaShape& shape = context.model.delta;
  const std::int64_t rows = context.rows, length = context.length, groups = shape.key_heads, sharing = shape.value_heads / groups;
  const std::int64_t dim = shape.key_dim, value_dim = shape.value_dim, values = sharing * value_dim, channels = 2 * dim + values;
  const RowOrder order(context);
  // A memory goes through a whole row, so each device has whole rows of some heads.
  const auto by_heads = [&](const std::string& as, Tensor x_BSF) {
    const Tensor x = reshape(x_BSF, {rows, length, groups, x_BSF.size(2) / groups});
    return order.in_order(constrain(as, x, {labels::activation_kv_batch, labels::none, labels::activation_kv_heads, labels::none}));
  };
  const Tensor mixed = by_heads("qkvz", project_in(builder, context, "in_proj_qkvz", x_BSM, groups * (channels + values)));
  const Tensor of_gates = by_heads("ba", project_in(builder, context, "in_proj_ba", x_BSM, 2 * shape.value_heads));
  const Tensor convolved = unary(graph::Unary::silu, convolve(builder, context, slice(mixed, 3, 0, channels), tokens));
  const double query_scale = 1 / std::sqrt(static_cast<double>(dim));
  Tensor query = slice(convolved, 3, 0, dim), key = slice(convolved, 3, dim, dim);
  query = shape.norms_keys ? of_length_one(builder, query, query_scale) : scale(query, query_scale);
  if (shape.norms_keys) key = of_length_one(builder, key, 1);
  const Shape of_values{rows, length, groups, sharing, value_dim};
  const Memory memory{query, key, reshape(slice(convolved, 3, 2 * dim, values), of_values),
                      decays(builder, context, slice(of_gates, 3, sharing, sharing)),
                      unary(graph::Unary::sigmoid, slice(of_gates, 3, 0, sharing))};
  const Tensor read = read_memory(builder, context, memory, order.in_order(tokens.segments), tokens.order);
  const Tensor gated = gate_heads(builder, context, read, reshape(slice(mixed, 3, channels, values), of_values));
  return project_heads(builder, context, reshape(order.as_stored(gated), {rows, length, groups * values}));
}

}  // namespace moesh::nn
