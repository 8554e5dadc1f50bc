// Shape suffixes: B rows, S tokens, N or W windows, C tokens of a window, M embedding, D a pool's width.
#include "nn/pooling.h"

#include <algorithm>

#include "nn/cache.h"
#include "nn/norm.h"
#include "sharding/labels.h"

namespace moesh::nn {
namespace {

constexpr double kClosed = -1e30;  // a gate that lets nothing in

// The windows of what was made of tokens, [B, S, D], as [B, W, C, D]; for pools that overlap one more window, which stands in front. In
// decoding, what was made of the tokens that the next windows need is kept.
Tensor in_windows(Builder& builder, const Context& context, const char* name, Tensor x_BSD, const Windows& windows, const PoolOf& of,
                  Tensor positions) {
  const std::int64_t rows = x_BSD.size(0), dim = x_BSD.size(2);
  if (context.trains())
    return reshape(slice(x_BSD, 1, 0, windows.count * windows.tokens), {rows, windows.count, windows.tokens, dim});
  const std::int64_t before = of.overlaps ? 1 : 0;
  const Labels labels{labels::cache_batch, labels::none, labels::cache_kv};
  const Tensor kept = kept_state(builder, name, {rows, (before + 1) * windows.tokens, dim}, x_BSD.dtype(), labels);
  const Shape shape{rows, windows.positions.size(1) + before, windows.tokens, dim};
  const Tensor made =
      builder.add_one(graph::Op::window_rows, "windows", {kept, x_BSD, positions}, graph::WindowRowsOf{before}, shape, x_BSD.dtype());
  const graph::CacheWriteOf write{.wraps = true, .skips = true};
  keep_state(builder, name, kept, write_cache(builder, kept, {x_BSD, windows.token_slots}, write), labels);
  return made;
}

Tensor project(Builder& builder, const Context& context, const char* name, Tensor x_BSM, const Windows& windows, const PoolOf& of,
               Tensor positions) {
  const graph::Scope scope(builder, name);
  const std::int64_t width = context.model.emb_dim, dim = of.overlaps ? 2 * of.dim : of.dim;
  const Tensor weight_MD =
      parameter(builder, context, "kernel", {width, dim}, {{labels::embed, labels::kv}, normal_fan_in(width), of.kernel});
  if (windows.count == 0) return {};
  return in_windows(builder, context, "tokens", einsum("", "bsm,md->bsd", x_BSM, weight_MD), windows, of, positions);
}

// The first half of the dims of the window before each, and the second half of each window itself.
struct Halves {
  Tensor earlier, own;
};

// In training, `first` stands in every element before the first window.
Halves halves_of(const Context& context, Tensor x_BNCD, double first) {
  const std::int64_t dim = x_BNCD.size(3) / 2, count = x_BNCD.size(1);
  const Tensor earlier = slice(x_BNCD, 3, 0, dim), own = slice(x_BNCD, 3, dim, dim);
  const auto but_last = [&] { return slice(earlier, 1, 0, count - 1); };
  if (!context.trains()) return {but_last(), slice(own, 1, 1, count - 1)};
  Shape one = earlier.shape();
  one[1] = 1;
  const Tensor begin = graph::fill(*x_BNCD.builder, first, one, x_BNCD.dtype());
  return {count == 1 ? begin : graph::concat({begin, but_last()}, 1), own};
}

// Joins each window's second half of the dims with the first half of the window before it, if that is before it in its text too.
void overlap(const Context& context, const Windows& windows, Tensor& values, Tensor& gates) {
  const Halves of_values = halves_of(context, values, 0), of_gates = halves_of(context, gates, kClosed);
  const Tensor closed = scale(unary(graph::Unary::offset, windows.go_on, -1), -kClosed);
  const Tensor earlier = add(of_gates.earlier, broadcast(cast(closed, gates.dtype()), of_gates.earlier.shape(), {0, 1}));
  values = graph::concat({of_values.earlier, of_values.own}, 2);
  gates = graph::concat({earlier, of_gates.own}, 2);
}

// In decoding, for tokens that are cached beside those of layers without pools.
Windows windows_of_cached(Builder& builder, const Context& context, std::int64_t tokens, const Tokens& of) {
  Windows made{tokens, context.cache_slots / tokens};
  if (made.count == 0) return made;
  const Shape of_tokens{context.rows, context.length}, of_windows{context.rows, made.count};
  const Shape of_new{context.rows, std::min(made.count, (context.length + tokens - 2) / tokens + 1)};
  const std::vector<Tensor> all =
      builder.add(graph::Op::windows, "windows", {of.key_order, of.key_segments}, graph::WindowsOf{tokens},
                  {{of_windows, DType::int32}, {of_windows, DType::int32}, {of_windows, DType::int32}, {of_windows, DType::float32}});
  made.last = all[1];
  made.segments = all[2];
  const std::vector<Tensor> pooled =
      builder.add(graph::Op::new_windows, "new_windows", {of.positions, of.segments}, graph::NewWindowsOf{tokens, made.count},
                  {{of_tokens, DType::int32}, {of_new, DType::int32}, {of_new, DType::int32}, {of_new, DType::float32}});
  made.token_slots = pooled[0];
  made.pool_slots = pooled[1];
  made.positions = pooled[2];
  made.go_on = pooled[3];
  made.key_order = graph::concat({of.near_key_order ? of.near_key_order : of.key_order, made.last}, 1);
  made.key_segments = graph::concat({of.near_key_segments ? of.near_key_segments : of.key_segments, made.segments}, 1);
  return made;
}

}  // namespace

Windows windows_of(Builder& builder, const Context& context, std::int64_t tokens, const Tokens& of) {
  if (!context.trains()) {
    return *std::find_if(of.windows.begin(), of.windows.end(), [&](const Windows& windows) { return windows.tokens == tokens; });
  }
  const Shape shape{context.rows, context.length / tokens};
  Windows windows{tokens, shape[1]};
  if (windows.count == 0) return windows;
  const std::pair<Shape, DType> of_tokens{shape, DType::int32};
  const std::vector<Tensor> made =
      builder.add(graph::Op::windows, "windows", {of.positions, of.segments}, graph::WindowsOf{tokens},
                  {of_tokens, of_tokens, of_tokens, {shape, DType::float32}});
  windows.positions = made[0];
  windows.last = made[1];
  windows.segments = made[2];
  windows.go_on = made[3];
  return windows;
}

std::vector<Windows> windows_of_layers(Builder& builder, const Context& context, const Tokens& of) {
  std::vector<Windows> made;
  for (const config::LayerShape& layer : context.model.of_cycle) {
    const bool is_there = std::any_of(made.begin(), made.end(), [&](const Windows& windows) { return windows.tokens == layer.pooled; });
    if (layer.pooled > 0 && !is_there) made.push_back(windows_of_cached(builder, context, layer.pooled, of));
  }
  return made;
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

Tensor pool(Builder& builder, const Context& context, Tensor x_BSM, const Windows& windows, const PoolOf& of, Tensor positions,
            std::int64_t timescale) {
  Tensor values = project(builder, context, "kv_proj", x_BSM, windows, of, positions);
  Tensor gates = project(builder, context, "gate_proj", x_BSM, windows, of, positions);
  const config::ModelShape& model = context.model;
  const DType wider = model.weight_dtype == DType::float32 ? DType::float32 : model.compute_dtype;
  const Tensor bias_CD = parameter(builder, context, "position_bias", {windows.tokens, of.overlaps ? 2 * of.dim : of.dim},
                                   {{labels::none, labels::none}, zeros(), Role::pool_bias, graph::ParameterOf::Labelled::never},
                                   wider);
  const Tensor norm = norm_scale(builder, context, "kv_norm", of.dim, model.labels_layer_norms, Role::attention_norm_scale);
  if (windows.count == 0) return {};
  gates = add(cast(gates, wider), broadcast(bias_CD, gates.shape(), {2, 3}));
  if (of.overlaps) overlap(context, windows, values, gates);
  const Shape shape{values.size(0), values.size(1), of.dim};
  const Tensor mean_BND = builder.add_one(graph::Op::pool, "pool", {values, gates}, {}, shape, values.dtype());
  const Tensor normed_BND = rms_norm_with(builder, "kv_norm", mean_BND, norm, model.norm_epsilon);
  const Tensor one_head = reshape(normed_BND, {shape[0], shape[1], 1, shape[2]});
  return reshape(rotate_last(builder, context, one_head, windows.positions, timescale), shape);
}

}  // namespace moesh::nn
