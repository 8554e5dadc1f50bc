#include "config/hugging_face_families.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"
#include "config/layer_cycle.h"

namespace moesh::config {
namespace {

using Reader = HuggingFaceReader;

// Theirs and ours; of several names for one the first is written. Their "gelu" is the exact one, ours the one by tanh.
constexpr std::pair<std::string_view, std::string_view> kActivations[] = {
    {"silu", "silu"}, {"swish", "silu"}, {"gelu_pytorch_tanh", "gelu"}, {"gelu_new", "gelu"}, {"relu", "relu"}, {"sigmoid", "sigmoid"}};

}  // namespace

void read_activation(Reader& reader, std::string_view key) {
  const std::string name = reader.text(key);
  const auto known = std::find_if(std::begin(kActivations), std::end(kActivations), [&](const auto& one) { return one.first == name; });
  if (known == std::end(kActivations)) reader.refuse_key(key, "silu, gelu_pytorch_tanh, relu or sigmoid");
  reader.give("mlp_activations", fmt::format("[{},linear]", known->second));
}

std::string_view activation_of_theirs(std::string_view ours) {
  const auto known = std::find_if(std::begin(kActivations), std::end(kActivations), [&](const auto& one) { return one.second == ours; });
  return known == std::end(kActivations) ? ours : known->first;
}

void read_sizes(Reader& reader) {
  const auto size = [&](std::string_view name, std::string_view key) { reader.give(key, reader.integer(name)); };
  size("hidden_size", "base_emb_dim");
  size("num_hidden_layers", "base_num_decoder_layers");
  size("num_attention_heads", "base_num_query_heads");
  size("vocab_size", "vocab_size");
  size("intermediate_size", "base_mlp_dim");
  reader.give("base_num_kv_heads", reader.integer("num_key_value_heads", reader.integer("num_attention_heads")));
  reader.give("normalization_layer_epsilon", reader.real("rms_norm_eps"));
  size("max_position_embeddings", "max_position_embeddings");
  // Weights are used as they are: embeddings are neither scaled for their initialisation nor rounded.
  reader.give("logits_via_embedding", reader.boolean("tie_word_embeddings"));
  reader.give("normalize_embedding_logits", false);
  reader.give("round_tied_embedding", false);
}

std::vector<std::string> all_layers(Reader& reader, const std::string& word) {
  const std::int64_t layers = reader.integer("num_hidden_layers");
  if (layers < 1 || layers > 1'000'000) reader.refuse_key("num_hidden_layers", "1 to 1,000,000 layers");
  return std::vector<std::string>(static_cast<std::size_t>(layers), word);
}

void set_every(std::vector<std::string>& words, std::int64_t n, const char* word) {
  const auto step = static_cast<std::size_t>(n);
  for (std::size_t i = step - 1; i < words.size(); i += step) words[i] = word;
}

std::vector<std::string> attention_of_layers(Reader& reader, std::vector<std::string> otherwise, bool has_chunks) {
  std::vector<std::string> types = reader.texts("layer_types");
  if (types.empty()) return otherwise;
  if (types.size() != otherwise.size())
    reader.refuse_key("layer_types", counted(static_cast<std::int64_t>(otherwise.size()), "word"));
  for (std::string& type : types) {
    if (type == "sliding_attention")
      type = "sliding";
    else if (type == "full_attention")
      type = "full";
    else if (type == "chunked_attention" && has_chunks)
      type = "chunked";
    else
      reader.refuse_key("layer_types", fmt::format("{} and full_attention", has_chunks ? "chunked_attention" : "sliding_attention"));
    if (type == "sliding" && has_chunks) reader.refuse_key("layer_types", "chunked_attention and full_attention");
  }
  return types;
}

std::int64_t head_dim_of(Reader& reader) {
  const std::int64_t heads = reader.integer("num_attention_heads");
  if (heads < 1) reader.refuse_key("num_attention_heads", "at least 1");
  return reader.integer("head_dim", reader.integer("hidden_size") / heads);
}

void read_heads(Reader& reader) {
  const std::int64_t head_dim = head_dim_of(reader);
  reader.give("head_dim", head_dim);
  reader.give("attention_score_scale", 1 / std::sqrt(static_cast<double>(head_dim)));
}

void read_plain(Reader& reader, double theta) {
  read_sizes(reader);
  read_heads(reader);
  read_activation(reader, "hidden_act");
  read_rope(reader, {.theta = theta}, false);
}

void read_experts(Reader& reader, std::string_view count) {
  reader.give("num_experts", reader.integer(count));
  reader.give("num_experts_per_tok", reader.integer("num_experts_per_tok"));
  reader.expect_off("router_jitter_noise");
}

void read_windows_but_each(Reader& reader, std::int64_t n) {
  std::vector<std::string> words = all_layers(reader, "sliding");
  set_every(words, n, "full");
  words = attention_of_layers(reader, std::move(words));
  const bool has_window = std::find(words.begin(), words.end(), "sliding") != words.end();
  if (has_window || reader.find("sliding_window") != nullptr) reader.give("sliding_window_size", reader.integer("sliding_window"));
  give_layers(reader, {std::move(words), {}, {}, true});
}

namespace {

// Mistral and Mixtral: if there is a window, every layer has it.
void read_window(Reader& reader) {
  if (reader.find("sliding_window") == nullptr) return;
  const std::int64_t window = reader.integer("sliding_window");
  if (window < 1) reader.refuse_key("sliding_window", "at least 1, or null");
  reader.give("sliding_window_size", window);
  give_layers(reader, {all_layers(reader, "sliding"), {}});
}

void read_llama(Reader& reader) {
  reader.give("decoder_block", "llama2");
  read_plain(reader);
  reader.give("attention_bias", reader.boolean("attention_bias"));
  reader.expect_off("mlp_bias");
}

void read_mistral(Reader& reader) {
  reader.give("decoder_block", "mistral");
  read_plain(reader);
  read_window(reader);
}

void read_mixtral(Reader& reader) {
  reader.give("decoder_block", "mixtral");
  read_plain(reader, 1e6);
  read_window(reader);
  read_experts(reader, "num_local_experts");
  reader.give("base_moe_mlp_dim", reader.integer("intermediate_size"));
}

void read_latent_attention(Reader& reader, bool pairs) {
  reader.give("attention_type", "mla");
  const std::int64_t nope = reader.integer("qk_nope_head_dim"), turned = reader.integer("qk_rope_head_dim");
  reader.give("qk_nope_head_dim", nope);
  reader.give("qk_rope_head_dim", turned);
  reader.give("q_lora_rank", reader.integer("q_lora_rank", 0));  // null: queries come from one matrix
  reader.give("kv_lora_rank", reader.integer("kv_lora_rank"));
  reader.give("v_head_dim", reader.integer("v_head_dim"));
  reader.give("mla_norm_epsilon", 1e-6);
  reader.expect_off("attention_bias");
  const double correction = read_rope(reader, {.latent_dims = turned}, pairs);
  const auto is_llama3 = [](const HuggingFaceKey& given) { return given.key == "rope_type" && given.value == "llama3.1"; };
  const bool turns_pairs = std::any_of(reader.settings().begin(), reader.settings().end(), is_llama3);
  if (turns_pairs && !pairs) reader.refuse_key("rope_interleave", "true, as llama3's positions rotate neighbours here");
  reader.give("attention_score_scale", correction * correction / std::sqrt(static_cast<double>(nope + turned)));
  reader.ignore({"head_dim", "qk_head_dim"});
}

void read_deepseek(Reader& reader) {
  reader.give("decoder_block", "deepseek");
  read_sizes(reader);
  read_activation(reader, "hidden_act");
  const std::int64_t layers = reader.integer("num_hidden_layers");
  const std::int64_t dense_layers = std::min(layers, reader.integer("first_k_dense_replace"));
  reader.give("first_num_dense_layers", dense_layers);
  read_experts(reader, "n_routed_experts");
  const std::int64_t width = reader.integer("moe_intermediate_size");
  reader.give("base_moe_mlp_dim", width);
  if (dense_layers == 0) reader.give("base_mlp_dim", width);  // no layer has intermediate_size
  reader.give("shared_experts", reader.integer("n_shared_experts"));
  reader.give("routed_scaling_factor", reader.real("routed_scaling_factor"));
  if (reader.integer("moe_layer_freq", 1) != 1) reader.refuse_key("moe_layer_freq", "1");
  reader.expect_off("mlp_bias");
  reader.ignore({"aux_loss_alpha", "seq_aux", "ep_size", "num_nextn_predict_layers", "num_mtp_layers"});
}

// Where the chosen groups have too few experts, transformers goes on with others, which have no weight or are any.
void check_groups(Reader& reader) {
  const std::int64_t groups = reader.integer("n_group"), chosen = reader.integer("topk_group");
  if (groups < 1) reader.refuse_key("n_group", "at least 1");
  if (chosen < 1) reader.refuse_key("topk_group", "at least 1");
  const std::int64_t there = reader.integer("n_routed_experts") / groups * std::min(chosen, groups);
  const std::int64_t asked = reader.integer("num_experts_per_tok");
  if (asked <= there) return;
  refuse(fmt::format("num_experts_per_tok is {}, and the groups that a token chooses have {}", asked, counted(there, "expert")),
         reader.place("topk_group"), "a larger topk_group, or a smaller num_experts_per_tok");
}

void read_groups(Reader& reader, const char* score) {
  check_groups(reader);
  reader.give("routing_group_score", score);
  reader.give("n_routing_groups", reader.integer("n_group"));
  reader.give("topk_routing_group", reader.integer("topk_group"));
}

void read_deepseek_v2(Reader& reader) {
  read_deepseek(reader);
  read_latent_attention(reader, true);
  reader.expect_text("scoring_func", "softmax");
  reader.give("routed_score_func", "softmax");
  reader.give("routed_weights", "scores");
  const std::string method = reader.text("topk_method");
  if (method != "greedy" && method != "group_limited_greedy")
    reader.refuse_key("topk_method", "greedy or group_limited_greedy");
  if (method == "group_limited_greedy") read_groups(reader, "best");
  reader.ignore({"norm_topk_prob", "n_group", "topk_group"});
}

void read_biased_routing(Reader& reader) {
  reader.expect_text("scoring_func", "sigmoid");
  reader.expect_text("topk_method", "noaux_tc");
  reader.give("routed_score_func", "sigmoid");
  reader.give("routed_bias", true);
  reader.give("routed_weights", reader.boolean("norm_topk_prob", false) ? "normalized" : "scores");
  read_groups(reader, "best_two");
}

// Null is false in transformers' eyes.
void read_deepseek_v3(Reader& reader) {
  read_deepseek(reader);
  read_latent_attention(reader, reader.boolean("rope_interleave", false));
  read_biased_routing(reader);
}

// DeepSeek 3 with an indexer in every layer.
void read_deepseek_v32(Reader& reader) {
  read_deepseek(reader);
  read_latent_attention(reader, true);
  read_biased_routing(reader);
  reader.give("use_indexer", true);
  reader.give("indexer_n_heads", reader.integer("index_n_heads"));
  reader.give("indexer_head_dim", reader.integer("index_head_dim"));
  reader.give("indexer_topk", reader.integer("index_topk"));
  const std::vector<std::string> attention = reader.texts("layer_types"), mlps = reader.texts("mlp_layer_types");
  if (!attention.empty() && attention != all_layers(reader, "indexed_attention"))
    reader.refuse_key("layer_types", "indexed_attention in all layers");
  std::vector<std::string> known = all_layers(reader, "sparse");
  const std::int64_t dense = reader.integer("first_k_dense_replace");
  for (std::size_t layer = 0; layer < known.size() && static_cast<std::int64_t>(layer) < dense; ++layer) known[layer] = "dense";
  if (!mlps.empty() && mlps != known)
    reader.refuse_key("mlp_layer_types", fmt::format("first {} dense (first_k_dense_replace), then sparse", dense));
}

void read_glm4_moe(Reader& reader) {
  read_deepseek(reader);
  read_heads(reader);
  read_rope(reader, {.partial = 0.5}, false);
  reader.give("attention_type", "global");
  reader.give("use_qk_norm", reader.boolean("use_qk_norm"));
  reader.give("attention_bias", reader.boolean("attention_bias"));
  reader.give("attention_out_bias", false);
  read_biased_routing(reader);
}

void read_olmo3(Reader& reader) {
  reader.give("decoder_block", "olmo3");
  read_sizes(reader);
  read_heads(reader);
  read_activation(reader, "hidden_act");
  reader.give("use_qk_norm", true);
  reader.give("attention_bias", reader.boolean("attention_bias"));
  read_rope_by_kind(reader, 500000, std::nullopt);
  read_windows_but_each(reader, 4);
}

// Whether each layer has rotary positions: 1 in no_rope_layers means that it has, despite the key's name.
std::vector<std::string> llama4_positions(Reader& reader) {
  const std::int64_t interval = reader.integer("no_rope_layer_interval");
  if (interval < 1) reader.refuse_key("no_rope_layer_interval", "at least 1");
  const std::vector<std::int64_t> listed = reader.integers("no_rope_layers");
  std::vector<std::string> words = all_layers(reader, "rotary");
  if (!listed.empty() && listed.size() < words.size())
    reader.refuse_key("no_rope_layers", counted(static_cast<std::int64_t>(words.size()), "number"));
  if (listed.empty()) set_every(words, interval, "none");
  for (std::size_t i = 0; i < std::min(listed.size(), words.size()); ++i) {
    if (listed[i] == 0) words[i] = "none";
  }
  return words;
}

std::vector<std::string> llama4_mlps(Reader& reader) {
  const std::int64_t step = reader.integer("interleave_moe_layer_step");
  if (step < 1) reader.refuse_key("interleave_moe_layer_step", "at least 1");
  std::vector<std::string> words = all_layers(reader, "dense");
  if (reader.find("moe_layers") == nullptr) {
    set_every(words, step, "moe");
    return words;
  }
  for (const std::int64_t layer : reader.integers("moe_layers")) {
    if (layer < 0 || layer >= static_cast<std::int64_t>(words.size())) reader.refuse_key("moe_layers", "numbers of layers");
    words[static_cast<std::size_t>(layer)] = "moe";
  }
  return words;
}

void read_llama4(Reader& reader) {
  reader.give("decoder_block", "llama4");
  read_sizes(reader);
  read_heads(reader);
  read_activation(reader, "hidden_act");
  read_rope(reader, {.theta = 500000}, true);
  reader.give("attention_bias", reader.boolean("attention_bias"));
  reader.give("use_qk_norm", reader.boolean("use_qk_norm"));
  reader.give("base_mlp_dim", reader.integer("intermediate_size_mlp"));
  reader.give("base_moe_mlp_dim", reader.integer("intermediate_size"));
  read_experts(reader, "num_local_experts");
  reader.give("shared_experts", std::int64_t{1});
  reader.give("temperature_tuning", reader.boolean("attn_temperature_tuning"));
  reader.give("temperature_tuning_scale", reader.real("attn_scale"));
  reader.give("temperature_tuning_floor", reader.real("floor_scale"));
  const std::vector<std::string> positions = llama4_positions(reader);
  std::vector<std::string> sights = positions;
  for (std::string& word : sights) word = word == "rotary" ? "chunked" : "full";
  sights = attention_of_layers(reader, std::move(sights), true);
  reader.give("chunk_attn_window_size", reader.integer("attention_chunk_size"));
  give_layers(reader, {std::move(sights), llama4_mlps(reader), positions, true});
  reader.ignore({"for_llm_compressor"});
}

// Of a file that says nothing of positions.
constexpr std::string_view kRopeOfGptOss =
    R"({"rope_type": "yarn", "factor": 32, "beta_fast": 32, "beta_slow": 1, "truncate": false, "original_max_position_embeddings": 4096})";

void read_gpt_oss(Reader& reader) {
  reader.give("decoder_block", "gpt_oss");
  read_sizes(reader);
  read_heads(reader);
  reader.expect_text("hidden_act", "silu");
  reader.give("mlp_activations", "[sigmoid,linear]");
  read_rope(reader, {.theta = 150000, .otherwise = kRopeOfGptOss}, false);
  reader.give("attention_bias", reader.boolean("attention_bias"));
  reader.give("attention_sink", true);
  reader.give("mlp_bias", true);
  read_experts(reader, "num_local_experts");
  reader.give("routed_bias", true);
  if (reader.real("swiglu_alpha") != 1.702) reader.refuse_key("swiglu_alpha", "1.702");
  const double limit = reader.real("swiglu_limit");
  if (limit <= 0) reader.refuse_key("swiglu_limit", "a number above 0");
  reader.give("mlp_activations_limit", limit);
  read_windows_but_each(reader, 2);
  reader.ignore({"experts_per_token", "initial_context_length"});
}

constexpr HuggingFaceFamily kFamilies[] = {
    {"llama", "LlamaForCausalLM", read_llama},
    {"llama4_text", "Llama4ForCausalLM", read_llama4, {"llama4", "Llama4ForConditionalGeneration"}},
    {"mistral", "MistralForCausalLM", read_mistral, {"mistral3", "Mistral3ForConditionalGeneration"}},
    {"mixtral", "MixtralForCausalLM", read_mixtral},
    {"qwen3", "Qwen3ForCausalLM", read_qwen3},
    {"qwen3_moe", "Qwen3MoeForCausalLM", read_qwen3_moe},
    {"qwen3_next", "Qwen3NextForCausalLM", read_qwen3_next},
    {"qwen3_5_moe_text", "Qwen3_5MoeForCausalLM", read_qwen3_5, {"qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration"}},
    {"deepseek_v2", "DeepseekV2ForCausalLM", read_deepseek_v2},
    {"deepseek_v3", "DeepseekV3ForCausalLM", read_deepseek_v3},
    {"deepseek_v32", "DeepseekV32ForCausalLM", read_deepseek_v32},
    {"kimi_k2", "DeepseekV3ForCausalLM", read_deepseek_v3},
    {"gpt_oss", "GptOssForCausalLM", read_gpt_oss},
    {"qwen2", "Qwen2ForCausalLM", read_qwen2},
    {"qwen2_moe", "Qwen2MoeForCausalLM", read_qwen2_moe},
    {"glm4_moe", "Glm4MoeForCausalLM", read_glm4_moe},
    {"gemma", "GemmaForCausalLM", read_gemma1},
    {"gemma2", "Gemma2ForCausalLM", read_gemma2},
    {"gemma3_text", "Gemma3ForCausalLM", read_gemma3, {"gemma3", "Gemma3ForConditionalGeneration"}},
    {"gemma4_text", "Gemma4ForCausalLM", read_gemma4, {"gemma4", "Gemma4ForConditionalGeneration", true}},
    {"olmo3", "Olmo3ForCausalLM", read_olmo3}};

}  // namespace

std::span<const HuggingFaceFamily> hugging_face_families() { return kFamilies; }

void give_layers(Reader& reader, const LayerWords& words) {
  const std::size_t cycle = std::lcm(cycle_of(words.attention), std::lcm(cycle_of(words.mlp), cycle_of(words.positions)));
  reader.give("inhomogeneous_layer_cycle_interval", static_cast<std::int64_t>(cycle));
  const auto give = [&](std::string_view key, std::vector<std::string> all, std::string_view usual) {
    const bool are_usual = std::all_of(all.begin(), all.end(), [&](const std::string& word) { return word == usual; });
    if (all.empty() || (!words.has_own && are_usual)) return;
    all.resize(cycle);
    reader.give(key, "[" + join(all, ",") + "]");
  };
  give("layer_attention", words.attention, "full");
  give("layer_mlp", words.mlp, "moe");
  give("layer_positions", words.positions, "rotary");
}

}  // namespace moesh::config
