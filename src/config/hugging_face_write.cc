#include "config/hugging_face_write.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "config/hugging_face_families.h"
#include "config/model_facts.h"
#include "config/model_shape.h"
#include "config/yarn.h"

namespace moesh::config {
namespace {

using Ordered = nlohmann::ordered_json;

constexpr std::pair<Block, std::string_view> kTypes[] = {
    {Block::llama2, "llama"},        {Block::mistral, "mistral"},      {Block::mixtral, "mixtral"},
    {Block::qwen2, "qwen2"},         {Block::qwen2_moe, "qwen2_moe"},  {Block::qwen3, "qwen3"},
    {Block::qwen3_moe, "qwen3_moe"}, {Block::deepseek, "deepseek_v3"}, {Block::gpt_oss, "gpt_oss"},
    {Block::gemma, "gemma"},         {Block::gemma2, "gemma2"},        {Block::gemma3, "gemma3_text"},
    {Block::qwen3_next, "qwen3_next"},
    {Block::gemma4, "gemma4_text"},  {Block::llama4, "llama4_text"},  {Block::olmo3, "olmo3"},
};

bool is_qwen35(const Settings& settings) { return settings.text("decoder_block") == "qwen3_5"; }
bool is_glm(const ModelShape& shape) { return shape.block == Block::deepseek && !shape.attention.latent; }
bool is_qwen(const ModelShape& shape) {
  return shape.block == Block::qwen2 || shape.block == Block::qwen2_moe || shape.block == Block::qwen3 ||
         shape.block == Block::qwen3_moe || shape.block == Block::qwen3_next;
}

bool has_gemma_caps(const ModelShape& shape) { return shape.block == Block::gemma2 || shape.block == Block::gemma3; }

// DeepSeek 2 and 3 differ in how tokens are routed.
bool is_deepseek2(const Settings& settings, const ModelShape& shape) {
  return shape.block == Block::deepseek && !is_glm(shape) && settings.text("routed_score_func") != "sigmoid";
}

const HuggingFaceFamily& family_of(const Settings& settings, const ModelShape& shape) {
  const auto of_block =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto& type) { return type.first == shape.block; });
  if (of_block == std::end(kTypes)) {
    refuse(fmt::format("Hugging Face has no models of decoder_block={}", settings.text("decoder_block")),
           settings.origin("decoder_block").where, "keep the checkpoint as it is");
  }
  if (shape.attention.index_heads > 0 && is_deepseek2(settings, shape)) {
    refuse(fmt::format("Hugging Face's models with an indexer have routed_score_func=sigmoid, not {}",
                       settings.text("routed_score_func").empty() ? "softmax" : settings.text("routed_score_func")),
           settings.origin("use_indexer").where, "keep the checkpoint as it is");
  }
  const std::string_view type = is_glm(shape)                     ? "glm4_moe"
                                : is_qwen35(settings)             ? "qwen3_5_moe_text"
                                : is_deepseek2(settings, shape)   ? "deepseek_v2"
                                : shape.attention.index_heads > 0 ? "deepseek_v32"
                                                                  : of_block->second;
  const auto all = hugging_face_families();
  return *std::find_if(all.begin(), all.end(),
                       [&](const HuggingFaceFamily& family) { return family.model_type == type; });
}

// Whole numbers are written without a fraction, as is usual in such files.
Ordered number_json(double value) {
  if (std::floor(value) == value && std::abs(value) < 1e15) return static_cast<std::int64_t>(value);
  return value;
}

Ordered yarn_of(const Settings& s, const ModelShape& shape) {
  const double factor = s.real("rope_factor");
  Ordered rope{{"rope_type", "yarn"},
               {"factor", factor},
               {"original_max_position_embeddings", s.integer("original_max_position_embeddings")},
               {"beta_fast", number_json(s.real("beta_fast"))},
               {"beta_slow", number_json(s.real("beta_slow"))},
               {"attention_factor", rotation_scale(s)}};
  if (!s.boolean("rope_truncate")) rope["truncate"] = false;
  const double correction = std::sqrt(score_scale(s) * std::sqrt(static_cast<double>(shape.attention.qk_head_dim())));
  if (shape.attention.latent && std::abs(correction - 1) > 1e-9)
    rope["mscale_all_dim"] = yarn_strength(factor, correction);
  return rope;
}

Ordered rope_of(const Settings& s, const ModelShape& shape) {
  if (uses_llama3_rope(s)) {
    if (!s.boolean("rope_use_scale")) return nullptr;
    return {{"rope_type", "llama3"},
            {"factor", s.real("llama3_rope_factor")},
            {"low_freq_factor", s.real("llama3_low_freq_factor")},
            {"high_freq_factor", s.real("llama3_high_freq_factor")},
            {"original_max_position_embeddings", s.integer("llama3_original_positions")}};
  }
  if (s.text("rope_type") == "yarn") return yarn_of(s, shape);
  const double factor = s.real("rope_linear_scaling_factor");
  if (factor == 1) return nullptr;
  return {{"rope_type", "linear"}, {"factor", factor}};
}

std::vector<std::string> layer_types(const ModelShape& shape) {
  const auto word = [](const LayerShape& layer) {
    if (layer.is_linear) return "linear_attention";
    return layer.chunk > 0 ? "chunked_attention" : layer.window > 0 ? "sliding_attention" : "full_attention";
  };
  std::vector<std::string> types;
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) types.emplace_back(word(shape.layer(layer % shape.layers_per_cycle())));
  return types;
}

std::int64_t window_of(const ModelShape& shape) {
  for (const LayerShape& layer : shape.of_cycle) {
    if (layer.window > 0) return layer.window;
  }
  return 0;
}

// Where no layer has a window, some families say so by null; the others' files need one all the same, and theirs is the usual one.
void add_window(const ModelShape& shape, Ordered& json) {
  const std::int64_t window = window_of(shape);
  const bool is_mistral = shape.block == Block::mistral || shape.block == Block::mixtral;
  if (shape.block == Block::llama2 || shape.block == Block::gemma || is_glm(shape)) return;
  if (window > 0)
    json["sliding_window"] = window;
  else if (is_mistral || is_qwen(shape))
    json["sliding_window"] = nullptr;
  if (is_mistral) return;
  json["layer_types"] = layer_types(shape);
  if (is_qwen(shape)) json["use_sliding_window"] = window > 0;
}

void add_linear_attention(const Settings& s, const ModelShape& shape, Ordered& json) {
  const DeltaShape& delta = shape.delta;
  json["partial_rotary_factor"] = s.real("partial_rotary_factor");
  json["linear_num_key_heads"] = delta.key_heads;
  json["linear_num_value_heads"] = delta.value_heads;
  json["linear_key_head_dim"] = delta.key_dim;
  json["linear_value_head_dim"] = delta.value_dim;
  json["linear_conv_kernel_dim"] = delta.window;
  json["layer_types"] = layer_types(shape);
}

void add_llama4(const Settings& s, const ModelShape& shape, Ordered& json) {
  std::vector<std::int64_t> turn, experts;
  std::int64_t chunk = 0;
  for (std::int64_t i = 0; i < shape.layers; ++i) {
    const LayerShape& layer = shape.layer(i % shape.layers_per_cycle());
    turn.push_back(layer.has_rope ? 1 : 0);
    if (layer.has_experts) experts.push_back(i);
    chunk = std::max(chunk, layer.chunk);
  }
  json["use_qk_norm"] = shape.attention.norm != HeadNorm::none;
  json["no_rope_layers"] = turn;
  json["moe_layers"] = experts;
  json["layer_types"] = layer_types(shape);
  if (chunk > 0) json["attention_chunk_size"] = chunk;
  json["attn_temperature_tuning"] = shape.attention.scales_query_by_position;
  json["attn_scale"] = s.real("temperature_tuning_scale");
  json["floor_scale"] = number_json(s.real("temperature_tuning_floor"));
  json["intermediate_size_mlp"] = shape.mlp_dim;
}

Ordered cap_json(double cap) { return cap > 0 ? Ordered(cap) : Ordered(nullptr); }

void add_gemma(const Settings& s, const ModelShape& shape, Ordered& json) {
  const double scale = score_scale(s);
  const bool is_third = block_of(s) == Block::gemma3;
  json["query_pre_attn_scalar"] = number_json(std::round(1e6 / (scale * scale)) / 1e6);
  json["final_logit_softcapping"] = cap_json(shape.logits_cap);
  json["attn_logit_softcapping"] = cap_json(is_third ? 0 : shape.attention.score_cap);
  json["hidden_activation"] = json["hidden_act"];
  if (is_third) json["rope_local_base_freq"] = number_json(s.real("local_rope_max_timescale"));
}

void add_gemma4(const Settings& s, const ModelShape& shape, Ordered& json) {
  const GlobalHeads& global = shape.global_heads;
  const std::int64_t own = s.integer("global_rope_max_timescale"), local = s.integer("local_rope_max_timescale");
  const std::int64_t theta = own > 0 ? own : s.integer("rope_max_timescale");
  json["hidden_activation"] = json["hidden_act"];
  for (const char* key : {"hidden_act", "rope_theta", "rope_scaling"}) json.erase(key);
  json["global_head_dim"] = global.head_dim;
  json["num_global_key_value_heads"] = global.shares_values ? Ordered(global.kv_heads) : Ordered(nullptr);
  json["attention_k_eq_v"] = global.shares_values;
  json["final_logit_softcapping"] = cap_json(shape.logits_cap);
  json["rope_parameters"] = {
      {"full_attention",
       {{"rope_type", "proportional"},
        {"rope_theta", theta},
        {"partial_rotary_factor", static_cast<double>(global.rotary_dim) / static_cast<double>(global.head_dim)}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", local > 0 ? local : s.integer("rope_max_timescale")}}}};
  json["sliding_window"] = window_of(shape);
  json["layer_types"] = layer_types(shape);
  json["hidden_size_per_layer_input"] = 0;
  json["vocab_size_per_layer_input"] = shape.vocab_size;
  json["num_kv_shared_layers"] = 0;
  json["enable_moe_block"] = shape.is_moe();
  if (!shape.is_moe()) return;
  json["num_experts"] = shape.moe.experts;
  json["top_k_experts"] = shape.moe.experts_per_token;
  json["moe_intermediate_size"] = shape.moe.mlp_dim;
}

// In newer files each kind of layer has rotary settings of its own, but `truncate` is read beside the kinds. Older files cannot say it.
bool needs_kinds_of_rope(const ModelShape& shape, const Ordered& json) {
  return shape.block == Block::olmo3 || (shape.block == Block::gemma3 && json.at("rope_scaling").contains("truncate"));
}

void use_kinds_of_rope(const Settings& s, Ordered& json) {
  Ordered full = json["rope_scaling"];
  if (full.is_null()) full = {{"rope_type", "default"}};
  const bool truncates = full.value("truncate", true);
  full.erase("truncate");
  full["rope_theta"] = json["rope_theta"];
  for (const char* key : {"rope_theta", "rope_scaling", "rope_local_base_freq"}) json.erase(key);
  const std::int64_t local = s.integer("local_rope_max_timescale");
  const Ordered local_theta = local > 0 ? Ordered(local) : full["rope_theta"];
  json["rope_parameters"] = {{"full_attention", full},
                             {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", local_theta}}}};
  if (!truncates) json["rope_parameters"]["truncate"] = false;
}

// gpt-oss takes its own YaRN for what is not said.
void use_parameters_of_rope(Ordered& json) {
  Ordered rope = json["rope_scaling"].is_null() ? Ordered{{"rope_type", "default"}} : json["rope_scaling"];
  rope["rope_theta"] = json["rope_theta"];
  for (const char* key : {"rope_theta", "rope_scaling"}) json.erase(key);
  json["rope_parameters"] = rope;
}

void add_attention(const Settings& s, const ModelShape& shape, Ordered& json) {
  const AttentionShape& a = shape.attention;
  json["num_attention_heads"] = a.query_heads;
  json["num_key_value_heads"] = a.latent ? a.query_heads : a.kv_heads;
  const bool may_have_bias =
      shape.block != Block::mixtral && shape.block != Block::mistral && shape.block != Block::qwen2;
  if (may_have_bias) json[shape.block == Block::qwen2_moe ? "qkv_bias" : "attention_bias"] = a.bias;
  json["rope_theta"] = number_json(s.real("rope_max_timescale"));
  json["rope_scaling"] = rope_of(s, shape);
  if (shape.block == Block::gpt_oss) use_parameters_of_rope(json);
  if (!a.latent) {
    json["head_dim"] = a.head_dim;
    if (shape.block == Block::llama4) return add_llama4(s, shape, json);
    if (shape.block == Block::gemma4) return add_gemma4(s, shape, json);
    if (shape.block == Block::qwen3_next) return add_linear_attention(s, shape, json);
    if (is_glm(shape)) json["use_qk_norm"] = a.norm != HeadNorm::none;
    if (is_glm(shape)) json["partial_rotary_factor"] = s.real("partial_rotary_factor");
    if (has_gemma_caps(shape)) add_gemma(s, shape, json);
    if (needs_kinds_of_rope(shape, json)) use_kinds_of_rope(s, json);
    return add_window(shape, json);
  }
  json["q_lora_rank"] = a.q_lora_rank > 0 ? Ordered(a.q_lora_rank) : Ordered(nullptr);
  json["kv_lora_rank"] = a.kv_lora_rank;
  json["qk_nope_head_dim"] = a.qk_nope_head_dim;
  json["qk_rope_head_dim"] = a.qk_rope_head_dim;
  json["v_head_dim"] = a.v_head_dim;
  if (a.index_heads > 0) {  // such models rotate neighbours
    json["index_n_heads"] = a.index_heads;
    json["index_head_dim"] = a.index_dim;
    json["index_topk"] = a.index_keys;
  } else if (!is_deepseek2(s, shape)) {
    json["rope_interleave"] = rope_is_interleaved(s);
  }
}

void add_deepseek(const Settings& s, const ModelShape& shape, Ordered& json) {
  const MoeShape& moe = shape.moe;
  json["n_routed_experts"] = moe.experts;
  json["n_shared_experts"] = moe.shared_experts;
  json["moe_intermediate_size"] = moe.mlp_dim;
  json["first_k_dense_replace"] = shape.dense_layers;
  if (shape.prediction_modules > 0) json["num_nextn_predict_layers"] = shape.prediction_modules;
  json["routed_scaling_factor"] = moe.routing.scale;
  const bool groups = moe.routing.groups > 1;
  json["n_group"] = groups ? moe.routing.groups : 1;
  json["topk_group"] = groups ? moe.routing.chosen_groups : 1;
  if (is_deepseek2(s, shape)) {
    json["topk_method"] = groups ? "group_limited_greedy" : "greedy";
    json["norm_topk_prob"] = false;
  } else {
    json["norm_topk_prob"] = s.text("routed_weights") != "scores";
  }
}

void add_experts(const Settings& s, const ModelShape& shape, Ordered& json) {
  const MoeShape& moe = shape.moe;
  if (!shape.is_moe() || shape.block == Block::gemma4) return;
  json["num_experts_per_tok"] = moe.experts_per_token;
  if (shape.block == Block::deepseek) return add_deepseek(s, shape, json);
  json[is_qwen(shape) ? "num_experts" : "num_local_experts"] = moe.experts;
  if (shape.block == Block::gpt_oss && moe.limit > 0) json["swiglu_limit"] = moe.limit;
  if (!is_qwen(shape)) return;
  if (shape.block == Block::qwen2_moe || shape.block == Block::qwen3_next) json["shared_expert_intermediate_size"] = moe.shared_dim;
  json["moe_intermediate_size"] = moe.mlp_dim;
  if (is_qwen35(s)) return;
  json["decoder_sparse_step"] = 1;
  json["norm_topk_prob"] = s.text("routed_weights") != "scores";
  std::vector<std::int64_t> dense;
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
    if (!shape.layer(layer % shape.layers_per_cycle()).has_experts) dense.push_back(layer);
  }
  json["mlp_only_layers"] = dense;
}

Ordered config_of(const Settings& s, const ModelShape& shape, const std::string& dtype) {
  const HuggingFaceFamily& family = family_of(s, shape);
  const bool one_width = shape.block == Block::mixtral || shape.block == Block::gpt_oss || shape.block == Block::llama4;
  Ordered json{{"architectures", {family.architecture}}, {"model_type", family.model_type}};
  json["hidden_size"] = shape.emb_dim;
  if (!is_qwen35(s)) json["intermediate_size"] = one_width ? shape.moe.mlp_dim : shape.mlp_dim;
  json["num_hidden_layers"] = shape.layers;
  json["vocab_size"] = shape.vocab_size;
  // The name says little in gpt-oss's files: its gate is its own.
  json["hidden_act"] = shape.block == Block::gpt_oss ? "silu" : activation_of_theirs(s.texts("mlp_activations").front());
  json["rms_norm_eps"] = shape.norm_epsilon;
  json["max_position_embeddings"] = s.integer("max_position_embeddings");
  json["tie_word_embeddings"] = shape.tied_embedding;
  add_attention(s, shape, json);
  add_experts(s, shape, json);
  json["torch_dtype"] = dtype;
  return json;
}

// The file must describe the model that it was written for.
void check_said(const Settings& settings, const std::string& text) {
  Settings read;
  for (const HuggingFaceKey& given : hugging_face_keys_in(text, "config.json")) {
    const Key* key = find_key(given.key);
    read.set(given.key, read_value(*key, given.value, given.where), {Source::preset, given.where});
  }
  const auto meant = model_facts(settings), said = model_facts(read);
  for (const auto& [name, value] : meant) {
    const auto found = said.find(name);
    if (found != said.end() && found->second == value) continue;
    refuse(fmt::format("Hugging Face's models of this kind have no {}={}", name, value), settings.origin(name).where,
           found == said.end() ? "" : fmt::format("{}={} is what they have", name, found->second));
  }
}

}  // namespace

std::string hugging_face_config_of(const Settings& settings, const std::string& dtype) {
  const std::string text = config_of(settings, model_shape(settings), dtype).dump(2) + "\n";
  check_said(settings, text);
  return text;
}

}  // namespace moesh::config
