// Qwen's models.
#include <algorithm>

#include "config/hugging_face_families.h"
#include "config/layer_cycle.h"

namespace moesh::config {
namespace {

using Reader = HuggingFaceReader;

// Which layers of a Qwen have a window if use_sliding_window says that there is one, as transformers has it: those from max_window_layers
// on, every other one before it, or all of them, whatever max_window_layers and layer_types say.
enum class QwenWindows { behind, every_other_before, everywhere };

std::vector<std::string> qwen_attention(Reader& reader, QwenWindows windows) {
  const bool is_said = reader.find("sliding_window") != nullptr, has_window = is_said && reader.boolean("use_sliding_window");
  reader.ignore({"use_sliding_window"});
  const std::int64_t window = has_window ? reader.integer("sliding_window") : 0, border = reader.integer("max_window_layers", 0);
  if (has_window && window < 1) reader.refuse_key("sliding_window", "at least 1, or null");
  std::vector<std::string> words = all_layers(reader, "full");
  for (std::size_t i = 0; has_window && i < words.size(); ++i) {
    const bool is_before = static_cast<std::int64_t>(i) < border;
    const bool is_sliding = windows == QwenWindows::everywhere || (windows == QwenWindows::behind ? !is_before : is_before && i % 2 == 0);
    if (is_sliding) words[i] = "sliding";
  }
  if (windows == QwenWindows::everywhere)
    reader.ignore({"layer_types"});
  else
    words = attention_of_layers(reader, std::move(words));
  if (std::count(words.begin(), words.end(), "sliding") == 0) return words;
  if (!has_window) reader.refuse_key("layer_types", "full_attention only, unless use_sliding_window is true,");
  reader.give("sliding_window_size", window);
  return words;
}

// Qwen: every n-th layer has experts, except for layers that are listed as dense.
std::vector<std::string> qwen_mlps(Reader& reader) {
  const std::int64_t step = reader.integer("decoder_sparse_step");
  const std::vector<std::int64_t> listed = reader.integers("mlp_only_layers");
  if (step < 1) reader.refuse_key("decoder_sparse_step", "at least 1");
  std::vector<std::string> words = all_layers(reader, "dense");
  set_every(words, step, "moe");
  for (const std::int64_t layer : listed) {
    if (layer >= 0 && layer < static_cast<std::int64_t>(words.size())) words[static_cast<std::size_t>(layer)] = "dense";
  }
  return words;
}

void read_softmax_routing(Reader& reader) {
  reader.give("routed_score_func", "softmax");
  reader.give("routed_weights", reader.boolean("norm_topk_prob") ? "normalized" : "scores");
}

}  // namespace

void read_qwen2(Reader& reader) {
  reader.give("decoder_block", "qwen2");
  read_plain(reader);
  reader.give("attention_bias", true);
  reader.expect_on("attention_bias");
  give_layers(reader, {qwen_attention(reader, QwenWindows::behind), {}});
}

void read_qwen2_moe(Reader& reader) {
  reader.give("decoder_block", "qwen2_moe");
  read_plain(reader);
  reader.give("attention_bias", reader.boolean("qkv_bias"));
  reader.give("attention_out_bias", false);
  read_experts(reader, "num_experts");
  reader.give("base_moe_mlp_dim", reader.integer("moe_intermediate_size"));
  reader.give("shared_experts", std::int64_t{1});
  reader.give("shared_expert_mlp_dim", reader.integer("shared_expert_intermediate_size"));
  read_softmax_routing(reader);
  give_layers(reader, {qwen_attention(reader, QwenWindows::every_other_before), qwen_mlps(reader)});
}

void read_qwen3(Reader& reader) {
  reader.give("decoder_block", "qwen3");
  read_plain(reader);
  reader.give("use_qk_norm", true);
  reader.expect_on("use_qk_norm");
  reader.give("attention_bias", reader.boolean("attention_bias"));
  give_layers(reader, {qwen_attention(reader, QwenWindows::behind), {}});
}

void read_qwen3_moe(Reader& reader) {
  reader.give("decoder_block", "qwen3_moe");
  read_plain(reader);
  reader.give("use_qk_norm", true);
  reader.expect_on("use_qk_norm");
  reader.give("attention_bias", reader.boolean("attention_bias"));
  read_experts(reader, reader.find("num_local_experts") != nullptr ? "num_local_experts" : "num_experts");
  reader.ignore({"num_experts"});  // another name of num_local_experts, which is heeded
  reader.give("base_moe_mlp_dim", reader.integer("moe_intermediate_size"));
  read_softmax_routing(reader);
  give_layers(reader, {qwen_attention(reader, QwenWindows::everywhere), qwen_mlps(reader)});
}

namespace {

// Every n-th layer has attention, and the others linear attention.
void read_full_layers(Reader& reader) {
  const std::vector<std::string> words = reader.texts("layer_types");
  const std::int64_t otherwise = reader.integer("full_attention_interval", 4);
  const auto interval = static_cast<std::int64_t>(words.empty() ? 0 : cycle_of(words));
  std::vector<std::string> known = all_layers(reader, "linear_attention");
  if (interval > 0) set_every(known, interval, "full_attention");
  if (!words.empty() && words != known)
    reader.refuse_key("layer_types", "full_attention in every n-th layer, and linear_attention in all others");
  reader.give("inhomogeneous_layer_cycle_interval", words.empty() ? otherwise : interval);
}

// Gated DeltaNet in most layers, and experts with a shared one in all.
void read_delta_model(Reader& reader) {
  read_sizes(reader);
  read_heads(reader);
  read_activation(reader, "hidden_act");
  const std::string activation = reader.text("hidden_act");
  if (activation != "silu" && activation != "swish")
    reader.refuse_key("hidden_act", "silu, which the convolutions of linear attention have too,");
  read_rope(reader, {.partial = 0.25}, false);
  reader.expect_off("attention_bias");
  reader.give("gdn_num_key_heads", reader.integer("linear_num_key_heads"));
  reader.give("gdn_num_value_heads", reader.integer("linear_num_value_heads"));
  reader.give("gdn_key_head_dim", reader.integer("linear_key_head_dim"));
  reader.give("gdn_value_head_dim", reader.integer("linear_value_head_dim"));
  reader.give("gdn_conv_kernel_dim", reader.integer("linear_conv_kernel_dim"));
  read_experts(reader, "num_experts");
  const std::int64_t width = reader.integer("moe_intermediate_size");
  for (const char* key : {"base_moe_mlp_dim", "base_mlp_dim"}) reader.give(key, width);  // no layer has intermediate_size
  reader.give("shared_expert_mlp_dim", reader.integer("shared_expert_intermediate_size"));
  read_full_layers(reader);
}

}  // namespace

void read_qwen3_next(Reader& reader) {
  reader.give("decoder_block", "qwen3_next");
  read_delta_model(reader);
  read_softmax_routing(reader);
  if (qwen_mlps(reader) != all_layers(reader, "moe")) reader.refuse_key("mlp_only_layers", "experts in all layers, decoder_sparse_step=1");
}

void read_qwen3_5(Reader& reader) {
  reader.give("decoder_block", "qwen3_5");
  read_delta_model(reader);
  reader.give("routed_score_func", "softmax");
  reader.give("routed_weights", "normalized");
  reader.expect_on("attn_output_gate");
  reader.expect_text("output_gate_type", "swish");
  reader.ignore({"mamba_ssm_dtype", "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings"});
}

}  // namespace moesh::config
