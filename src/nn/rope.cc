#include "nn/rope.h"

#include <cmath>

#include <fmt/core.h>

#include "base/error.h"

namespace moesh::nn {
namespace {

// Settings that only yarn reads.
void stretch(graph::RopeOf& of, const config::Settings& settings) {
  of.factor = settings.real("rope_factor");
  of.beta_fast = settings.real("beta_fast");
  of.beta_slow = settings.real("beta_slow");
  of.original_max_positions = settings.integer("original_max_position_embeddings");
  of.truncate = settings.boolean("rope_truncate");
  of.attention_scaling = settings.boolean("rope_attention_scaling");
  of.attention_factor = settings.real("rope_attention_factor");
}

// Settings that only llama3 reads.
void stretch_low(graph::RopeOf& of, const config::Settings& settings) {
  of.factor = settings.real("llama3_rope_factor");
  of.low_freq_factor = settings.real("llama3_low_freq_factor");
  of.high_freq_factor = settings.real("llama3_high_freq_factor");
  of.original_max_positions = settings.integer("llama3_original_positions");
}

graph::RopeOf rope_of(const config::Settings& settings) {
  using Kind = graph::RopeOf::Kind;
  const bool llama3 = config::uses_llama3_rope(settings);
  graph::RopeOf of;
  of.kind = llama3 ? Kind::llama3 : config::turns_as_yarn(settings) ? Kind::yarn : Kind::standard;
  of.interleave = config::rope_is_interleaved(settings);
  if (of.kind != Kind::yarn) of.min_timescale = static_cast<double>(settings.integer("rope_min_timescale"));
  of.max_timescale = static_cast<double>(settings.integer("rope_max_timescale"));
  if (of.kind == Kind::standard) of.linear_scaling = settings.real("rope_linear_scaling_factor");
  if (llama3 && !settings.boolean("rope_use_scale")) of.kind = Kind::standard;
  if (of.kind == Kind::yarn) stretch(of, settings);
  if (of.kind == Kind::llama3) stretch_low(of, settings);
  return of;
}

graph::RopeOf rope_of(const config::Settings& settings, bool windowed) {
  const std::optional<config::WindowRotation> own = windowed ? config::rotation_of_windows(settings) : std::nullopt;
  if (!own) return rope_of(settings);
  graph::RopeOf of;
  of.min_timescale = static_cast<double>(own->min_timescale);
  of.max_timescale = static_cast<double>(own->max_timescale);
  of.linear_scaling = own->linear_scaling;
  return of;
}

// As in MaxText, there is no linear scaling if only a part of a head is rotated.
graph::RopeOf rope_of_kind(const config::Settings& settings, bool is_global, std::int64_t dims, std::int64_t of_dims) {
  const std::int64_t own = settings.integer(is_global ? "global_rope_max_timescale" : "local_rope_max_timescale");
  graph::RopeOf of = rope_of(settings);
  if (own > 0) of.max_timescale = static_cast<double>(own);
  if (dims == of_dims) return of;
  const double share = static_cast<double>(dims) / static_cast<double>(of_dims);
  of.max_timescale = of.min_timescale * std::pow(of.max_timescale / of.min_timescale, share);
  of.linear_scaling = 1;
  return of;
}

Tensor rotated(Builder& builder, Tensor x, Tensor positions, const graph::RopeOf& of) {
  if (x.shape().back() % 2 != 0) {
    refuse(fmt::format("rotary embedding turns pairs, but the last dim is {}", x.shape().back()), builder.path("rope"),
           "choose an even head_dim");
  }
  return builder.add_one(graph::Op::rope, "rope", {x, positions}, of, x.shape(), x.dtype());
}

}  // namespace

Tensor rope(Builder& builder, const Context& context, Tensor x, Tensor positions, bool windowed) {
  return rotated(builder, x, positions, rope_of(context.settings, windowed));
}

Tensor rope_in_halves(Builder& builder, const Context& context, Tensor x, Tensor positions) {
  graph::RopeOf of = rope_of(context.settings);
  of.interleave = false;
  return rotated(builder, x, positions, of);
}

Tensor rope_of_kind(Builder& builder, const Context& context, Tensor x, Tensor positions, bool is_global, std::int64_t of_dims) {
  return rotated(builder, x, positions, rope_of_kind(context.settings, is_global, x.shape().back(), of_dims));
}

}  // namespace moesh::nn
