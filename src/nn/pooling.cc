// Shape suffixes: B rows, S tokens, N windows, C tokens of a window, M embedding, D a pool's width.
#include "nn/pooling.h"

#include "nn/norm.h"
#include "sharding/labels.h"

namespace moesh::nn {
namespace {

constexpr double kClosed = -1e30;  // a gate that lets nothing in

// Each token's projection, in windows, [B, N, C, D].
Tensor project(Builder& builder, const Context& context, const char* name, Tensor x_BSM, const Windows& windows, const PoolOf& of) {
  const graph::Scope scope(builder, name);
  const std::int64_t width = context.model.emb_dim, dim = of.overlaps ? 2 * of.dim : of.dim;
  const Tensor weight_MD =
      parameter(builder, context, "kernel", {width, dim}, {{labels::embed, labels::kv}, normal_fan_in(width), of.kernel});
  if (windows.count == 0) return {};
  const Tensor made_BSD = slice(einsum("", "bsm,md->bsd", x_BSM, weight_MD), 1, 0, windows.count * windows.tokens);
  return reshape(made_BSD, {x_BSM.size(0), windows.count, windows.tokens, dim});
}

// The windows one place later, behind a window of `first` in every element.
Tensor later(Tensor x_BNCD, double first) {
  Shape one = x_BNCD.shape();
  one[1] = 1;
  const Tensor begin = graph::fill(*x_BNCD.builder, first, one, x_BNCD.dtype());
  if (x_BNCD.size(1) == 1) return begin;
  return graph::concat({begin, slice(x_BNCD, 1, 0, x_BNCD.size(1) - 1)}, 1);
}

// Joins each window's second half of the dims with the first half of the window before it, if that is before it in its text too.
void overlap(const Windows& windows, Tensor& values, Tensor& gates) {
  const std::int64_t dim = values.size(3) / 2;
  const auto half = [&](Tensor x, std::int64_t i) { return slice(x, 3, i * dim, dim); };
  Shape shape = values.shape();
  shape[3] = dim;
  const auto of_windows = [&](Tensor x_BN) { return broadcast(x_BN, shape, {0, 1}); };
  const Tensor closed = scale(unary(graph::Unary::offset, windows.go_on, -1), -kClosed);
  const Tensor earlier = add(later(half(gates, 0), kClosed), of_windows(cast(closed, gates.dtype())));
  values = graph::concat({later(half(values, 0), 0), half(values, 1)}, 2);
  gates = graph::concat({earlier, half(gates, 1)}, 2);
}

}  // namespace

Windows windows_of(Builder& builder, const Context& context, std::int64_t tokens, const Tokens& of) {
  const Shape shape{context.rows, context.length / tokens};
  if (shape[1] == 0) return {tokens, 0, {}, {}, {}, {}};
  const std::pair<Shape, DType> of_tokens{shape, DType::int32};
  const std::vector<Tensor> made =
      builder.add(graph::Op::windows, "windows", {of.positions, of.segments}, graph::WindowsOf{tokens},
                  {of_tokens, of_tokens, of_tokens, {shape, DType::float32}});
  return {tokens, shape[1], made[0], made[1], made[2], made[3]};
}

Tensor rotate_last(Builder& builder, const Context& context, Tensor x_BSHD, Tensor positions, std::int64_t timescale, bool back) {
  const std::int64_t turned = context.model.attention.qk_rope_head_dim, rest = x_BSHD.size(3) - turned;
  const Tensor last = rest == 0 ? x_BSHD : slice(x_BSHD, 3, rest, turned);
  graph::RopeOf of;
  of.interleave = true;
  of.max_timescale = static_cast<double>(timescale);
  of.inverse = back;
  of.is_wide = true;
  const Tensor rotated = builder.add_one(graph::Op::rope, "rope", {last, positions}, of, last.shape(), last.dtype());
  return rest == 0 ? rotated : graph::concat({slice(x_BSHD, 3, 0, rest), rotated}, 3);
}

Tensor pool(Builder& builder, const Context& context, Tensor x_BSM, const Windows& windows, const PoolOf& of, std::int64_t timescale) {
  Tensor values = project(builder, context, "kv_proj", x_BSM, windows, of);
  Tensor gates = project(builder, context, "gate_proj", x_BSM, windows, of);
  const config::ModelShape& model = context.model;
  const DType wider = model.weight_dtype == DType::float32 ? DType::float32 : model.compute_dtype;
  const Tensor bias_CD = parameter(builder, context, "position_bias", {windows.tokens, of.overlaps ? 2 * of.dim : of.dim},
                                   {{labels::none, labels::none}, zeros(), Role::pool_bias, graph::ParameterOf::Labelled::never},
                                   wider);
  const Tensor norm = norm_scale(builder, context, "kv_norm", of.dim, model.labels_layer_norms, Role::attention_norm_scale);
  if (windows.count == 0) return {};
  gates = add(cast(gates, wider), broadcast(bias_CD, gates.shape(), {2, 3}));
  if (of.overlaps) overlap(windows, values, gates);
  const Shape shape{values.size(0), values.size(1), of.dim};
  const Tensor mean_BND = builder.add_one(graph::Op::pool, "pool", {values, gates}, {}, shape, values.dtype());
  const Tensor normed_BND = rms_norm_with(builder, "kv_norm", mean_BND, norm, model.norm_epsilon);
  const Tensor one_head = reshape(normed_BND, {shape[0], shape[1], 1, shape[2]});
  return reshape(rotate_last(builder, context, one_head, windows.positions, timescale), shape);
}

}  // namespace moesh::nn
