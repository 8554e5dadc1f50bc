#include "config/model_facts.h"

#include <cmath>

#include <fmt/core.h>

#include "base/text.h"
#include "config/model_shape.h"
#include "config/yarn.h"

namespace moesh::config {
namespace {

using Facts = std::map<std::string, std::string>;

std::string number(double value) { return fmt::format("{:.9g}", value); }
std::string yes_or_no(bool value) { return value ? "true" : "false"; }

void add_compressed(const Settings& s, const AttentionShape& a, Facts& facts) {
  facts["attention_type"] = "compressed";
  facts["head_dim"] = std::to_string(a.head_dim);
  facts["qk_rope_head_dim"] = std::to_string(a.qk_rope_head_dim);
  facts["q_lora_rank"] = std::to_string(a.q_lora_rank);
  facts["o_groups"] = std::to_string(a.out_groups);
  facts["o_lora_rank"] = std::to_string(a.out_rank);
  facts["indexer_n_heads"] = std::to_string(a.index_heads);
  facts["indexer_head_dim"] = std::to_string(a.index_dim);
  facts["indexer_topk"] = std::to_string(a.index_keys);
  facts["compressed_rope_max_timescale"] = std::to_string(s.integer("compressed_rope_max_timescale"));
}

void add_attention(const Settings& s, const ModelShape& shape, Facts& facts) {
  const AttentionShape& a = shape.attention;
  facts["base_num_query_heads"] = std::to_string(a.query_heads);
  facts["attention_score_scale"] = number(score_scale(s));
  facts["final_logits_soft_cap"] = number(shape.logits_cap);
  facts["attn_logits_soft_cap"] = number(a.score_cap);
  if (shape.block == Block::deepseek4) return add_compressed(s, a, facts);
  facts["attention_type"] = a.latent ? "mla" : "global";
  if (a.latent) {
    facts["q_lora_rank"] = std::to_string(a.q_lora_rank);
    facts["kv_lora_rank"] = std::to_string(a.kv_lora_rank);
    facts["qk_nope_head_dim"] = std::to_string(a.qk_nope_head_dim);
    facts["qk_rope_head_dim"] = std::to_string(a.qk_rope_head_dim);
    facts["v_head_dim"] = std::to_string(a.v_head_dim);
    facts["mla_norm_epsilon"] = number(a.latent_norm_epsilon);
    facts["use_indexer"] = yes_or_no(a.index_heads > 0);
    facts["indexer_n_heads"] = std::to_string(a.index_heads);
    facts["indexer_head_dim"] = std::to_string(a.index_dim);
    facts["indexer_topk"] = std::to_string(a.index_keys);
    if (a.index_heads > 0) facts["indexer_mask_exact_topk"] = yes_or_no(s.boolean("indexer_mask_exact_topk"));
    facts["rope_interleave"] = yes_or_no(rope_is_interleaved(s));
    return;
  }
  facts["base_num_kv_heads"] = std::to_string(a.kv_heads);
  facts["head_dim"] = std::to_string(a.head_dim);
  facts["partial_rotary_factor"] = std::to_string(a.rotary_dim);
  facts["use_qk_norm"] = yes_or_no(a.norm != HeadNorm::none);
  facts["qk_norm_with_scale"] = yes_or_no(a.scales_norm);
  facts["attention_bias"] = yes_or_no(a.bias);
  facts["attention_out_bias"] = yes_or_no(a.out_bias);
  facts["attention_sink"] = yes_or_no(a.sinks);
  if (shape.block == Block::plain) facts["share_kv_projections"] = yes_or_no(a.shares_values);
  if (shape.block != Block::gemma4) return;
  facts["v_norm_with_scale"] = yes_or_no(a.scales_value_norm);
  const GlobalHeads& global = shape.global_heads;
  facts["global_num_kv_heads"] = std::to_string(global.kv_heads);
  facts["global_head_dim"] = std::to_string(global.head_dim);
  facts["global_rope_proportion"] = std::to_string(global.rotary_dim);
  facts["share_kv_projections"] = yes_or_no(global.shares_values);
}

void add_rope(const Settings& s, Facts& facts) {
  const bool llama3 = uses_llama3_rope(s) && s.boolean("rope_use_scale"), yarn = turns_as_yarn(s);
  facts["rope_type"] = llama3 ? "llama3.1" : yarn ? "yarn" : "default";
  const bool has_own = block_of(s) == Block::gemma4 && s.integer("global_rope_max_timescale") > 0;
  facts["rope_max_timescale"] = number(s.real(has_own ? "global_rope_max_timescale" : "rope_max_timescale"));
  if (!yarn) facts["rope_min_timescale"] = number(s.real("rope_min_timescale"));
  if (turns_plainly(s)) facts["rope_linear_scaling_factor"] = number(s.real("rope_linear_scaling_factor"));
  if (llama3) {
    for (const char* key :
         {"llama3_rope_factor", "llama3_low_freq_factor", "llama3_high_freq_factor", "llama3_original_positions"})
      facts[key] = number(s.real(key));
  }
  if (!yarn) return;
  for (const char* key : {"rope_factor", "beta_fast", "beta_slow", "original_max_position_embeddings"})
    facts[key] = number(s.real(key));
  facts["rope_truncate"] = yes_or_no(s.boolean("rope_truncate"));
  facts["rope_attention_factor"] = number(rotation_scale(s));
}

// How the chosen experts are weighted. A softmax over the chosen is the softmax over all, normalised to sum to 1.
std::string weights_of(const Settings& s, const MoeShape& moe) {
  const RoutingShape& of = moe.routing;
  const std::string way = of.softmax_of_chosen ? "softmax" : of.normalize ? "normalized" : "scores";
  const std::string& function = s.text("routed_score_func");
  if (moe.weights_inputs) return way == "scores" && function.empty() ? "sigmoid, of inputs" : "sigmoid of other scores, of inputs";
  if (moe.softmax_over_all) return fmt::format("{} of softmax{}{}, scaled by expert", way, function.empty() ? "" : " of ", function);
  if (way == "softmax") return function.empty() ? "softmax" : "softmax over " + function;
  return way == "normalized" && function == "softmax" ? "softmax" : way + " of " + function;
}

void add_experts(const Settings& s, const ModelShape& shape, Facts& facts) {
  const MoeShape& moe = shape.moe;
  facts["num_experts"] = std::to_string(moe.experts);
  if (!shape.is_moe()) return;
  facts["num_experts_per_tok"] = std::to_string(moe.experts_per_token);
  facts["base_moe_mlp_dim"] = std::to_string(moe.mlp_dim);
  facts["routed_bias"] = yes_or_no(moe.routed_bias);
  facts["mlp_bias"] = yes_or_no(moe.bias);
  facts["routed_weights"] = weights_of(s, moe);
  facts["shared_experts"] = std::to_string(may_share_experts(shape.block) ? moe.shared_dim : 0);
  facts["mlp_activations_limit"] = number(moe.limit > 0 ? moe.limit : -1);
  if (!is_deepseek(shape.block)) return;
  facts["routed_scaling_factor"] = number(moe.routing.scale);
  // With a single group, all experts may be chosen.
  const bool has_groups = moe.routing.groups > 1;
  facts["n_routing_groups"] = has_groups ? std::to_string(moe.routing.groups) : "1";
  facts["topk_routing_group"] = has_groups ? std::to_string(moe.routing.chosen_groups) : "1";
  if (moe.routed_bias || has_groups)
    facts["routing_group_score"] = s.text("routing_group_score") == "best" ? "best"
                                   : routes_by_groups(s)                   ? "best_two"
                                                                           : "";
}

// Plain frequencies are told by their wavelength alone, also if all layers have them.
std::string words_for_windows(const Settings& s) {
  const WindowRotation all{s.integer("rope_max_timescale"), s.integer("rope_min_timescale"), s.real("rope_linear_scaling_factor")};
  const std::optional<WindowRotation> own = rotation_of_windows(s);
  if (!own && !turns_plainly(s)) return "as the others";
  const WindowRotation of = own.value_or(all);
  if (of.min_timescale == 1 && of.linear_scaling == 1) return std::to_string(of.max_timescale);
  return fmt::format("{} to {}, over {}", of.min_timescale, of.max_timescale, number(of.linear_scaling));
}

// For each layer: what its queries see, whether it has rotary positions, and which kind of MLP follows.
void add_layers(const Settings& s, const ModelShape& shape, Facts& facts) {
  std::string sights, positions, mlps;
  bool slides = false, has_dense = false, has_still = false;
  const bool deepseek = shape.block == Block::deepseek;
  for (std::int64_t layer = 0; layer < shape.layers_of_model(); ++layer) {
    const LayerShape& of = deepseek ? LayerShape{} : shape.layer(layer % shape.layers_per_cycle());
    const bool has_experts = deepseek ? layer >= shape.dense_layers : of.has_experts;
    sights += of.is_linear    ? "linear "
              : of.chunk > 0  ? fmt::format("chunk {} ", of.chunk)
              : of.pooled > 0 ? fmt::format("{} and pools of {} ", of.window, of.pooled)
                              : fmt::format("{} ", of.window);
    positions += of.has_rope ? "rotary " : "none ";
    mlps += of.has_given_experts ? "given " : has_experts ? "moe " : "dense ";
    slides = slides || of.window > 0;
    has_dense = has_dense || !has_experts;
    has_still = has_still || !of.has_rope;
  }
  facts["layer_attention"] = sights;
  facts["layer_positions"] = positions;
  facts["layer_mlp"] = mlps;
  if (slides) facts["local_rope_max_timescale"] = words_for_windows(s);
  if (has_still) facts["temperature_tuning"] = yes_or_no(shape.attention.scales_query_by_position);
  if (has_still && shape.attention.scales_query_by_position) {
    facts["temperature_tuning_scale"] = number(s.real("temperature_tuning_scale"));
    facts["temperature_tuning_floor"] = number(s.real("temperature_tuning_floor"));
  }
  if (has_dense) facts["base_mlp_dim"] = std::to_string(shape.mlp_dim);
  // Of routed experts only the first function counts.
  const bool has_mlp = has_dense || (may_share_experts(shape.block) && shape.moe.shared_dim > 0);
  std::vector<std::string> activations = s.texts("mlp_activations");
  if (!has_mlp && activations.size() > 1) activations.resize(1);
  facts["mlp_activations"] = join(activations, ",");
}

void add_delta(const ModelShape& shape, Facts& facts) {
  const DeltaShape& delta = shape.delta;
  facts["gdn_num_key_heads"] = std::to_string(delta.key_heads);
  facts["gdn_num_value_heads"] = std::to_string(delta.value_heads);
  facts["gdn_key_head_dim"] = std::to_string(delta.key_dim);
  facts["gdn_value_head_dim"] = std::to_string(delta.value_dim);
  facts["gdn_conv_kernel_dim"] = std::to_string(delta.window);
  facts["use_qk_norm_in_gdn"] = yes_or_no(delta.norms_keys);
}

void add_norms(const ModelShape& shape, Facts& facts) {
  facts["normalization_layer_epsilon"] = number(shape.norm_epsilon);
  facts["layer_norm_epsilon"] = number(shape.layer_norm_epsilon);
  facts["norm_scales_above_one"] = yes_or_no(shape.norm_scale_is_offset);
  facts["use_post_attn_norm"] = yes_or_no(shape.norms_attention);
  facts["use_post_ffw_norm"] = yes_or_no(shape.norms_mlp);
}

}  // namespace

double rotation_scale(const Settings& s) {
  const double given = s.real("rope_attention_factor");
  if (given >= 0) return given;
  return s.boolean("rope_attention_scaling") ? yarn_scale_if_longer(s.real("rope_factor")) : 1;
}

// The scale of scores: the one that is given, otherwise width^-1/2, with YaRN's correction for long contexts in MLA.
double score_scale(const Settings& s) {
  const ModelShape shape = model_shape(s);
  const AttentionShape& a = shape.attention;
  if (a.score_scale >= 0) return a.score_scale;
  const double plain = 1 / std::sqrt(static_cast<double>(a.qk_head_dim()));
  if (!a.latent || !stretches_positions(s)) return plain;
  const double correction = yarn_scale(s.real("rope_factor"), s.real("mscale"));
  return plain * correction * correction;
}

Facts model_facts(const Settings& s) {
  const ModelShape shape = model_shape(s);
  Facts facts;
  facts["base_emb_dim"] = std::to_string(shape.emb_dim);
  facts["base_num_decoder_layers"] = std::to_string(shape.layers_of_model());
  facts["vocab_size"] = std::to_string(shape.vocab_size);
  add_norms(shape, facts);
  facts["mhc_expansion_rate"] = std::to_string(shape.streams.count);
  facts["scale_embeddings"] = yes_or_no(shape.scales_embedding);
  facts["trainable_position_size"] = std::to_string(shape.position_rows);
  facts["logits_via_embedding"] = yes_or_no(shape.tied_embedding);
  if (shape.tied_embedding) facts["normalize_embedding_logits"] = yes_or_no(s.boolean("normalize_embedding_logits"));
  add_attention(s, shape, facts);
  add_rope(s, facts);
  add_experts(s, shape, facts);
  add_layers(s, shape, facts);
  if (shape.block == Block::qwen3_next) add_delta(shape, facts);
  return facts;
}

}  // namespace moesh::config
