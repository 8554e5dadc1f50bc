// Gemma 1 to 4. In 4, layers with a window and layers without one have heads and rotations of their own.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"
#include "config/hugging_face_families.h"

namespace moesh::config {
namespace {

using Reader = HuggingFaceReader;

// What all Gemmas have in common.
void read_gemmas(Reader& reader) {
  read_sizes(reader);
  reader.give("layer_norm_epsilon", reader.real("rms_norm_eps"));
  reader.give("scale_embeddings", true);
  reader.give("logits_via_embedding", reader.boolean("tie_word_embeddings"));
  reader.give("head_dim", reader.integer("head_dim"));
  reader.give("attention_bias", reader.boolean("attention_bias"));
  reader.ignore({"cache_implementation"});
}

// Gemma 1 to 3.
void read_gemmas_before_4(Reader& reader) {
  read_gemmas(reader);
  reader.give("norm_scales_above_one", true);
  reader.expect_off("use_bidirectional_attention");
}

// Gemma 2 to 4.
void read_outer_norms_and_cap(Reader& reader) {
  reader.give("use_post_attn_norm", true);
  reader.give("use_post_ffw_norm", true);
  read_activation(reader, "hidden_activation");
  const double cap = reader.real("final_logit_softcapping", 0);
  for (const char* key : {"final_logits_soft_cap", "untied_logits_soft_cap"}) reader.give(key, cap);
  reader.ignore({"hidden_act"});
}

// Gemma 2 and 3: queries are scaled by a number that the file gives.
void read_gemmas_2_and_3(Reader& reader) {
  read_gemmas_before_4(reader);
  reader.give("attention_score_scale", 1 / std::sqrt(reader.real("query_pre_attn_scalar")));
  read_outer_norms_and_cap(reader);
}

// The last layer has full attention, whatever the file says.
std::vector<std::string> gemma4_sights(Reader& reader) {
  std::vector<std::string> words = all_layers(reader, "sliding");
  set_every(words, 6, "full");
  words = attention_of_layers(reader, std::move(words));
  words.back() = "full";
  return words;
}

// The layers of an object with an entry for each. Their numbers may be padded to one width: "05" beside "11".
std::map<std::int64_t, const Json*> by_number(Reader& reader, const Json& by_layer) {
  std::map<std::int64_t, const Json*> numbered;
  if (!by_layer.is_object()) reader.refuse_key("per_layer_config", "an object for each layer with full_attention");
  for (const auto& [name, entry] : by_layer.items()) {
    const std::optional<std::int64_t> number = parse_integer(name);
    if (!number || !numbered.emplace(*number, &entry).second) reader.refuse_key("per_layer_config", "the number of a layer as each key");
  }
  return numbered;
}

// The settings of layers with full attention that differ from the others: by the layer's number in newer files, once in older ones.
void read_global_heads(Reader& reader, const std::vector<std::string>& sights) {
  const bool shares = reader.boolean("attention_k_eq_v");
  reader.give("share_kv_projections", shares);
  const Json* by_layer = reader.find("per_layer_config");
  const auto give_width = [](Reader& of, const char* key, std::int64_t otherwise) {
    const std::int64_t width = of.integer(key, otherwise);
    check_rotated(width, 1, of.place(key));
    of.give("global_head_dim", width);
  };
  if (by_layer == nullptr) {
    give_width(reader, "global_head_dim", 512);
    const std::int64_t heads = reader.integer("num_global_key_value_heads", 0);
    return reader.give("global_num_kv_heads", shares ? heads : 0);
  }
  reader.ignore({"global_head_dim", "num_global_key_value_heads"});
  const std::map<std::int64_t, const Json*> numbered = by_number(reader, *by_layer);
  const auto first = std::find(sights.begin(), sights.end(), "full") - sights.begin();
  const auto count = static_cast<std::size_t>(std::count(sights.begin(), sights.end(), "full"));
  const auto is_full = [&](const auto& layer) {
    return layer.first >= 0 && layer.first < static_cast<std::int64_t>(sights.size()) &&
           sights[static_cast<std::size_t>(layer.first)] == "full";
  };
  if (numbered.size() != count || !std::all_of(numbered.begin(), numbered.end(), is_full))
    reader.refuse_key("per_layer_config", "an object for each layer with full_attention");
  const Json& own = *numbered.at(first);
  if (std::any_of(numbered.begin(), numbered.end(), [&](const auto& layer) { return *layer.second != own; }))
    reader.refuse_key("per_layer_config", "the same for all layers with full_attention");
  HuggingFaceReader heads(own, reader.where(), fmt::format("per_layer_config.{}.", first), reader.settings());
  give_width(heads, "head_dim", reader.integer("head_dim"));
  heads.give("global_num_kv_heads", heads.integer("num_key_value_heads", 0));
  heads.finish();
}

}  // namespace

// Its activation is GELU in the tanh form, though older files say "gelu"; the newer key hidden_activation is ignored.
void read_gemma1(Reader& reader) {
  reader.give("decoder_block", "gemma");
  read_gemmas_before_4(reader);
  reader.give("attention_score_scale", 1 / std::sqrt(static_cast<double>(reader.integer("head_dim"))));
  const std::string activation = reader.text("hidden_act");
  if (activation != "gelu" && activation != "gelu_pytorch_tanh" && activation != "gelu_new")
    reader.refuse_key("hidden_act", "gelu or gelu_pytorch_tanh");
  reader.give("mlp_activations", "[gelu,linear]");
  read_rope(reader, {}, false);
  reader.ignore({"hidden_activation"});
}

void read_gemma2(Reader& reader) {
  reader.give("decoder_block", "gemma2");
  read_gemmas_2_and_3(reader);
  read_rope(reader, {}, false);
  reader.give("attn_logits_soft_cap", reader.real("attn_logit_softcapping", 0));
  read_windows_but_each(reader, 2);
}

constexpr std::int64_t kUsualPattern = 6;  // one layer in so many has no window

void read_gemma3(Reader& reader) {
  reader.give("decoder_block", "gemma3");
  read_gemmas_2_and_3(reader);
  read_rope_by_kind(reader, 1e6, 10000.0);
  const std::int64_t pattern = reader.integer("sliding_window_pattern", kUsualPattern);
  if (pattern < 1) reader.refuse_key("sliding_window_pattern", "at least 1");
  const bool is_said = reader.find("layer_types") != nullptr || reader.find("sliding_window_pattern") != nullptr;
  if (!is_said && reader.integer("_sliding_window_pattern", kUsualPattern) != kUsualPattern)
    reader.refuse_key("_sliding_window_pattern", "sliding_window_pattern, which transformers reads instead, or layer_types");
  read_windows_but_each(reader, pattern);
  reader.ignore({"attn_logit_softcapping"});
}

void read_gemma4(Reader& reader) {
  reader.give("decoder_block", "gemma4");
  read_gemmas(reader);
  reader.give("attention_score_scale", 1.0);
  reader.give("v_norm_with_scale", false);
  read_outer_norms_and_cap(reader);
  const Json* sees_both_ways = reader.find("use_bidirectional_attention");
  if (sees_both_ways != nullptr && *sees_both_ways != "vision") reader.refuse_key("use_bidirectional_attention", "null, or \"vision\"");
  if (reader.find("hidden_size_per_layer_input") == nullptr) {
    refuse("hidden_size_per_layer_input is missing, which stands for embeddings of width 256 in each layer", reader.where(),
           "set it to 0 where the model has none: moesh does no others");
  }
  reader.expect_off("hidden_size_per_layer_input");
  reader.expect_off("num_kv_shared_layers");
  reader.ignore({"vocab_size_per_layer_input", "use_double_wide_mlp"});
  const std::vector<std::string> sights = gemma4_sights(reader);
  read_global_heads(reader, sights);
  read_rope_of_gemma4(reader);
  reader.give("sliding_window_size", reader.integer("sliding_window"));
  give_layers(reader, {sights, {}, {}, true});
  if (!reader.boolean("enable_moe_block")) return reader.ignore({"num_experts", "top_k_experts", "moe_intermediate_size"});
  reader.give("num_experts", reader.integer("num_experts"));
  reader.give("num_experts_per_tok", reader.integer("top_k_experts"));
  reader.give("base_moe_mlp_dim", reader.integer("moe_intermediate_size"));
  reader.give("shared_experts", std::int64_t{1});
  reader.give("norm_topk_prob", true);
}

}  // namespace moesh::config
