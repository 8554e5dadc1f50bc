// Shape suffixes: B rows, S length, M embedding, H heads, D head dim.
#include "nn/attention.h"

#include <cmath>

#include "nn/cache.h"
#include "nn/norm.h"
#include "nn/rope.h"
#include "sharding/labels.h"

namespace moesh::nn {
namespace {

// Labels of the values around attention: training, prefill and decode have labels, and so rules, of their own.
AttentionLabels labels_of(Context::Mode mode) {
  using namespace labels;  // NOLINT: the table reads as the rule files do
  switch (mode) {
    case Context::Mode::prefill:
      return {{activation_prefill_kv_batch, prefill_activation_length, activation_embed_attn},
              {activation_prefill_kv_batch, prefill_activation_length, activation_kv_heads, activation_kv_head_dim},
              {activation_prefill_kv_batch, prefill_activation_length, activation_kv_heads, activation_kv_head_dim},
              {activation_prefill_kv_batch, prefill_activation_length, activation_heads, activation_kv}};
    case Context::Mode::decode:
      return {{decode_batch, decode_length, activation_embed_attn},
              {decode_batch, decode_length, activation_heads, activation_kv},
              {decode_batch, decode_length, activation_kv_heads, activation_kv},
              {decode_batch, decode_length, activation_heads, activation_kv}};
    case Context::Mode::train: break;
  }
  return {{activation_batch_attn, activation_input_length_attn, activation_embed_attn},
          {activation_kv_batch, activation_length_attn, activation_kv_heads, activation_kv_head_dim},
          {activation_kv_batch, activation_length_attn, activation_kv_heads, activation_kv_head_dim},
          {activation_batch_attn, activation_length_attn, activation_heads, activation_kv}};
}

struct Projection {
  std::string name;
  std::int64_t heads;
  const char* heads_label;
  const char* dim_label;
  std::int64_t dim;  // of a head
  double divisor = 1;  // of the initial kernel's standard deviation
  bool is_fused = false;  // one kernel for queries, keys and values

  std::string tag() const { return name + "_proj"; }
};

Tensor project(Builder& builder, const Context& context, Tensor x_BSM, const config::AttentionShape& shape, const Projection& p) {
  const graph::Scope scope(builder, p.is_fused ? p.tag() : p.name);
  const Role role = p.is_fused ? Role::attention_fused_kernel : Role::attention_kernel;
  Labels of = {labels::embed, p.heads_label, p.dim_label};
  if (!p.is_fused) of = unless_context_decodes(context, std::move(of));
  const Tensor weight_MHD = parameter(builder, context, "kernel", {context.model.emb_dim, p.heads, p.dim},
                                      {of, normal_fan_in(context.model.emb_dim, p.divisor), role});
  const Tensor out_BSHD = tag(einsum("", "bsm,mhd->bshd", x_BSM, weight_MHD), p.tag());
  if (!shape.bias) return out_BSHD;
  return add_bias(out_BSHD, parameter(builder, context, "bias", {p.heads, p.dim},
                                      {{of[1], of[2]}, zeros(), Role::attention_bias}));
}

struct Heads {
  Tensor query, key, value;
  Tensor gate = {};  // of the result, like the query; usually absent
};

Heads project_apart(Builder& builder, const Context& context, const config::AttentionShape& shape, Tensor query_in, Tensor kv_in) {
  const double divisor = shape.scales_query_init ? std::sqrt(static_cast<double>(shape.head_dim)) : 1;
  const auto made = [&](Tensor in, const Projection& p) { return project(builder, context, in, shape, p); };
  const std::int64_t dim = shape.head_dim, query_dim = shape.gates_out ? 2 * dim : dim;
  const Tensor query = made(query_in, {"query", shape.query_heads, labels::q_heads, labels::kv, query_dim, divisor});
  const Tensor key = made(kv_in, {"key", shape.kv_heads, labels::kv_heads, labels::kv_head_dim, dim});
  if (shape.shares_values) return {query, key, key};
  const Tensor value = made(kv_in, {"value", shape.kv_heads, labels::kv_heads, labels::kv_head_dim, dim});
  if (!shape.gates_out) return {query, key, value};
  return {slice(query, 3, 0, dim), key, value, slice(query, 3, dim, dim)};
}

// Projects to all heads with one kernel, query heads first. As in MaxText, the initial kernel is not smaller for queries.
Heads project_fused(Builder& builder, const Context& context, const config::AttentionShape& shape, Tensor x_BSM) {
  const std::int64_t heads = shape.query_heads, kv_heads = shape.kv_heads;
  const Projection all{"qkv", heads + 2 * kv_heads, labels::heads, labels::kv, shape.head_dim, 1, true};
  const Tensor all_BSHD = project(builder, context, x_BSM, shape, all);
  return {tag(slice(all_BSHD, 2, 0, heads), "query_proj"), tag(slice(all_BSHD, 2, heads, kv_heads), "key_proj"),
          tag(slice(all_BSHD, 2, heads + kv_heads, kv_heads), "value_proj")};
}

// Norms queries or keys before they are rotated.
Tensor norm_heads(Builder& builder, const Context& context, const std::string& name, Tensor x_BSHD) {
  const config::AttentionShape& of = context.model.attention;
  const auto norm = [&](Tensor x) {
    return of.scales_norm ? rms_norm(builder, context, name, x, {Role::attention_norm_scale}) : rms_norm_without_scale(builder, context, x);
  };
  if (of.norm == config::HeadNorm::each) return norm(x_BSHD);
  if (of.norm != config::HeadNorm::all) return x_BSHD;
  const Shape shape = x_BSHD.shape();
  return reshape(norm(reshape(x_BSHD, {shape[0], shape[1], shape[2] * shape[3]})), shape);
}

Tensor norm_values(Builder& builder, const Context& context, Tensor x_BSHD) {
  const config::AttentionShape& shape = context.model.attention;
  if (!shape.norms_values) return x_BSHD;
  return shape.scales_value_norm ? rms_norm(builder, context, "value_norm", x_BSHD, {Role::attention_norm_scale})
                                 : rms_norm_without_scale(builder, context, x_BSHD);
}

Tensor norm_after_rope(Builder& builder, const Context& context, Tensor x_BSHD) {
  return context.model.attention.norm == config::HeadNorm::after_rope ? rms_norm_without_scale(builder, context, x_BSHD) : x_BSHD;
}

// Temperature tuning: scales up queries with their position, in layers without rotary positions.
Tensor temper(Builder& builder, const Context& context, Tensor query_BSHD, const Tokens& tokens) {
  if (!context.model.attention.scales_query_by_position) return query_BSHD;
  const graph::TemperOf of{context.settings.real("temperature_tuning_scale"), context.settings.real("temperature_tuning_floor")};
  const Tensor factors_BS = builder.add_one(graph::Op::temper, "temper", {tokens.positions}, of, tokens.positions.shape(), DType::float32);
  const Tensor wide = multiply(cast(query_BSHD, DType::float32), broadcast(factors_BS, query_BSHD.shape(), {0, 1}));
  return cast(wide, query_BSHD.dtype());
}

// Rotates the beginnings of a head's two halves, paired as in a head that consists of these dims alone.
Tensor rotate_half_prefixes(Builder& builder, const Context& context, Tensor x_BSHD, const Tokens& tokens, bool is_global,
                            std::int64_t rotary_dim) {
  const std::int64_t dim = x_BSHD.size(3), half = dim / 2, begins = rotary_dim / 2;
  const auto rotate_all = [&](Tensor x) { return rope_of_kind(builder, context, x, tokens.positions, is_global, dim); };
  if (rotary_dim == dim) return rotate_all(x_BSHD);
  const auto part = [&](Tensor x, std::int64_t from, std::int64_t size) { return slice(x, 3, from, size); };
  const Tensor turns = rotate_all(graph::concat({part(x_BSHD, 0, begins), part(x_BSHD, half, begins)}, 3));
  return graph::concat({part(turns, 0, begins), part(x_BSHD, begins, half - begins), part(turns, begins, begins),
                        part(x_BSHD, half + begins, half - begins)},
                       3);
}

// Rotates the first dims of a head, usually all of them.
Tensor rotate(Builder& builder, const Context& context, Tensor x_BSHD, const Tokens& tokens, const config::LayerShape& layer) {
  const config::AttentionShape shape = context.model.attention_of(layer);
  const std::int64_t rotary_dim = shape.rotary_dim, dim = x_BSHD.size(3);
  const bool windowed = layer.window > 0;
  if (rotary_dim == 0) return x_BSHD;
  if (shape.rotates_half_prefixes) return rotate_half_prefixes(builder, context, x_BSHD, tokens, layer.has_global_heads, rotary_dim);
  if (rotary_dim == dim) return rope(builder, context, x_BSHD, tokens.positions, windowed);
  const Tensor first = rope(builder, context, slice(x_BSHD, 3, 0, rotary_dim), tokens.positions, windowed);
  return graph::concat({first, slice(x_BSHD, 3, rotary_dim, dim - rotary_dim)}, 3);
}

}  // namespace

graph::AttentionOf attention_of(const Context& context, const config::LayerShape& layer) {
  const config::Settings& settings = context.settings;
  const bool float32_softmax = settings.boolean("float32_qk_product") || settings.boolean("float32_logits");
  return {layer.window, layer.chunk, 1, context.model.attention.score_cap, float32_softmax, context.trains() ? context.balanced_over : 0};
}

void update_kv_cache(Builder& builder, const Context& context, Tensor& key, Tensor& value, const Tokens& tokens, std::int64_t slots) {
  if (context.trains()) return;
  const Labels kept{labels::cache_batch, labels::cache_sequence, labels::cache_heads, labels::cache_kv};
  key = update_cache(builder, context, "key", key, tokens.positions, slots, kept);
  value = update_cache(builder, context, "value", value, tokens.positions, slots, kept);
}

Attended attend(Builder& builder, const Context& context, Tensor query, Tensor key, Tensor value, const Tokens& tokens,
                graph::AttentionOf of, Tensor sinks, Tensor chosen) {
  // A kernel that computes whole rows of scores needs all keys and values of its rows; plain products leave their layout open.
  if (context.model.gathers_kv && context.trains()) {
    const auto whole = [](const std::string& name, Tensor x, const char* length) {
      return constrain(name, x, {labels::activation_batch_attn, length, labels::activation_heads, labels::activation_kv});
    };
    query = whole("attention_op/query", query, labels::activation_length);
    key = whole("attention_op/key", key, labels::activation_kv_length);
    value = whole("attention_op/value", value, labels::activation_kv_length);
  }
  std::vector<Tensor> operands{query, key, value, tokens.order, tokens.segments};
  if (context.trains() && tokens.key_order) {
    operands.insert(operands.end(), {tokens.key_order, tokens.key_segments});
  } else if (!context.trains()) {
    of.keys_by_place = key.size(1) - of.pools == context.cache_slots;
    if (of.keys_by_place)
      operands.insert(operands.end(), {tokens.key_order, tokens.key_segments});
    else
      operands.insert(operands.end(), {tokens.near_key_order, tokens.near_key_segments});
  }
  of.is_sparse = static_cast<bool>(chosen);
  if (chosen) operands.push_back(chosen);
  if (sinks) operands.push_back(sinks);
  Shape shape = query.shape();
  shape.back() = value.shape().back();
  const Shape of_scores{query.size(0), query.size(1), query.size(2)};
  const std::int64_t heads = of_scores.back();
  const bool gives_highest = context.trains() && context.settings.boolean("use_qk_clip");
  std::vector<std::pair<Shape, DType>> results{{std::move(shape), query.dtype()}};
  if (gives_highest) results.emplace_back(of_scores, DType::float32);
  const std::vector<Tensor> made = builder.add(graph::Op::attention, "attention_op", operands, of, results);
  const Tensor out = tag(made[0], "context");
  if (!gives_highest) return {out, {}};
  return {out, reshape(builder.add_one(graph::Op::highest, "max_logits", {made[1]}, {}, {1, 1, heads}, DType::float32), {heads})};
}

Labels unless_context_decodes(const Context& context, Labels labels) {
  return context.settings.integer("ici_context_autoregressive_parallelism") > 1 ? Labels(labels.size()) : labels;
}

Tensor project_out(Builder& builder, const Context& context, Tensor heads_BSHD) {
  return project_out(builder, context, heads_BSHD, unless_context_decodes(context, {labels::heads, labels::kv, labels::embed}));
}

Tensor project_out(Builder& builder, const Context& context, Tensor heads_BSHD, const Labels& of) {
  const graph::Scope scope(builder, "out");
  const std::int64_t heads = heads_BSHD.size(2);
  const std::int64_t dim = heads_BSHD.size(3);
  if (context.model.attention.flat_out) {
    const std::int64_t width = heads * dim;
    const Tensor weight_FM = parameter(builder, context, "kernel", {width, context.model.attention.out_dim},
                                       {{labels::mlp, labels::embed}, normal_fan_in(width), Role::attention_flat_out_kernel});
    const Tensor heads_BSF = reshape(heads_BSHD, {heads_BSHD.size(0), heads_BSHD.size(1), width});
    return tag(einsum("", "bsf,fm->bsm", heads_BSF, weight_FM), "out_proj");
  }
  const Tensor weight_HDM = parameter(builder, context, "kernel", {heads, dim, context.model.attention.out_dim},
                                      {of, normal_fan_in(heads * dim), Role::attention_out_kernel});
  const Tensor out_BSM = tag(einsum("", "bshd,hdm->bsm", heads_BSHD, weight_HDM), "out_proj");
  if (!context.model.attention.out_bias) return out_BSM;
  return add_bias(out_BSM, parameter(builder, context, "bias", {context.model.attention.out_dim},
                                     {{of.back()}, zeros(), Role::attention_bias}));
}

Tensor attention(Builder& builder, const Context& context, const std::string& name, Tensor x_BSM, const Tokens& tokens,
                 const config::LayerShape& layer) {
  const graph::Scope scope(builder, name);
  const config::AttentionShape shape = context.model.attention_of(layer);
  const AttentionLabels as = labels_of(context.mode());
  const Tensor query_in = constrain("inputs_q", x_BSM, as.input);
  const Tensor kv_in = constrain("inputs_kv", x_BSM, as.input);
  auto [query, key, value, gate] = shape.fused ? project_fused(builder, context, shape, query_in)
                                         : project_apart(builder, context, shape, query_in, kv_in);
  query = norm_heads(builder, context, "query_norm", query);
  key = norm_heads(builder, context, "key_norm", key);
  value = norm_values(builder, context, value);
  if (layer.has_rope) {
    query = norm_after_rope(builder, context, rotate(builder, context, query, tokens, layer));
    key = norm_after_rope(builder, context, rotate(builder, context, key, tokens, layer));
  }
  const double own_scale = 1 / std::sqrt(static_cast<double>(shape.head_dim));
  if (shape.scales_query && shape.score_scale != 1) query = scale(query, shape.score_scale >= 0 ? shape.score_scale : own_scale);
  if (!layer.has_rope) query = temper(builder, context, query, tokens);
  query = constrain("query", query, as.query);
  key = constrain("key", key, as.key);
  value = constrain("value", value, as.key);
  update_kv_cache(builder, context, key, value, tokens, slots_of(context, layer));
  Tensor sinks;
  if (shape.sinks) {
    sinks = parameter(builder, context, "sinks", {shape.query_heads}, {{labels::none}, zeros(), Role::attention_sinks});
  }
  Tensor out = attend(builder, context, query, key, value, tokens, attention_of(context, layer), sinks).out;
  // MaxText labels the heads of gated results as if they were the embedding.
  const graph::ConstraintOf of_embedding{
      .labels = {labels::activation_batch, labels::activation_length, labels::activation_embed, labels::none}, .unlisted = 1};
  out = constrain("out", out, gate && context.trains() ? of_embedding : graph::ConstraintOf{as.out});
  if (gate) out = multiply(out, unary(graph::Unary::sigmoid, gate));
  return project_out(builder, context, out);
}

}  // namespace moesh::nn
