#include "foreign/megatron_model.h"

#include <algorithm>
#include <numeric>

#include <fmt/core.h>

#include "base/error.h"
#include "base/rounding.h"
#include "base/text.h"
#include "config/attention_parts.h"
#include "config/layer_cycle.h"
#include "foreign/pattern.h"
#include "foreign/vocabulary.h"

namespace moesh::foreign {
namespace {

using config::cycle_of;

constexpr std::int64_t kMostLayers = 100'000;

std::int64_t needed(Flags& flags, std::string_view name) {
  const std::optional<std::int64_t> value = flags.integer(name, 1);
  if (!value) {
    refuse(fmt::format("no --{}, which a model's size needs", name), kFromMegatron,
           "give all flags of the model, or model_name= for one of `moesh help models`");
  }
  return *value;
}

// One word per layer: `marked` for a 1 in the flag's pattern, else `otherwise`. If the flag has a number N, it marks the first, the last,
// or all but the last of every N layers.
enum class Marks { first, last, all_but_last };

std::vector<std::string> words_of(Flags& flags, std::string_view name, std::int64_t layers, Marks marks, const char* marked,
                                  const char* otherwise) {
  std::vector<std::string> words(static_cast<std::size_t>(layers), otherwise);
  const std::optional<std::string> text = flags.text(name);
  if (!text) return {};
  const std::string expected =
      fmt::format("a number, or a pattern such as [0]*3+[1]*{} of {}", std::max<std::int64_t>(1, layers - 3), counted(layers, "layer"));
  if (const std::optional<std::int64_t> every = parse_integer(*text)) {
    if (*every < 1) flags.refuse_value(name, expected);
    for (std::int64_t i = 0; i < layers; ++i) {
      const bool is_last = (i + 1) % *every == 0;
      const bool is_marked = marks == Marks::first ? i % *every == 0 : marks == Marks::last ? is_last : !is_last;
      if (is_marked) words[static_cast<std::size_t>(i)] = marked;
    }
    return words;
  }
  const std::optional<std::vector<int>> pattern = parse_pattern(*text, words.size());
  if (!pattern || pattern->size() != words.size()) flags.refuse_value(name, expected);
  for (std::size_t i = 0; i < words.size(); ++i) {
    if ((*pattern)[i] == 1) words[i] = marked;
  }
  return words;
}

class Model {
 public:
  Model(Flags& flags, Translation& translation) : flags_(flags), translation_(translation) {}

  ModelFacts give(std::int64_t tensor) {
    layers_ = needed(flags_, "num-layers");
    if (layers_ > kMostLayers) flags_.refuse_value("num-layers", fmt::format("at most {}", with_commas(kMostLayers)));
    read_kind();
    translation_.give("decoder_block", block_);
    give_sizes();
    give_attention();
    give_positions();
    give_mlp();
    if (has_experts()) give_experts();
    give_layers();
    give_modules();
    give_vocabulary(tensor);
    return {layers_, dense_first_, experts_, is_latent_, cycle_};
  }

 private:
  void give(std::string_view key, const auto& value) { translation_.give(key, value); }
  bool is_block(std::string_view block) const { return block_ == block; }
  bool has_experts() const { return experts_ > 0; }

  // Reads which kind of layers the model has, and chooses the family that has such layers.
  void read_kind() {
    is_latent_ = flags_.is_set("multi-latent-attention");
    experts_ = flags_.integer("num-experts", 0).value_or(0);
    if (experts_ == 1) experts_ = 0;
    has_bias_ = !flags_.is_set("disable-bias-linear");
    has_qkv_bias_ = flags_.is_set("add-qkv-bias");
    is_gated_ = flags_.is_set("swiglu");
    is_quick_ = flags_.is_set("quick-geglu");
    norm_ = flags_.choice("normalization", "LayerNorm", {"LayerNorm", "RMSNorm"});
    read_positions();
    read_mlps();
    shared_ = flags_.integer("moe-shared-expert-intermediate-size", 0).value_or(0);
    has_gate_ = flags_.is_set("moe-shared-expert-gate");
    sinks_ = flags_.choice("softmax-type", "vanilla", {"vanilla", "off-by-one", "learnable"}) == "learnable";
    has_groups_ = flags_.has("moe-router-num-groups") || flags_.has("moe-router-topk-scaling-factor");
    learns_balance_ = flags_.is_set("moe-router-enable-expert-bias");
    has_groups_of_heads_ = flags_.is_set("group-query-attention");
    variant_ = flags_.text("experimental-attention-variant").value_or("");
    block_ = block();
    if (is_latent_ && !has_experts()) {
      refuse("--multi-latent-attention without experts: no family has such layers", kFromMegatron,
             "model_name= for one of `moesh help models`, and the other flags as they are");
    }
    if (is_latent_ && is_mixed_) {
      dense_first_ = std::count(mlps_.begin(), mlps_.end(), "dense");
      is_mixed_ = false;
      translation_.differ("--moe-layer-freq: in this family the dense layers come first, as many");
    }
    if (!is_block("deepseek")) dense_first_ = 0;
  }

  void read_positions() {
    positions_ =
        flags_.choice("position-embedding-type", "learned_absolute", {"learned_absolute", "rope", "yarn", "none", "mrope", "relative"});
    if (flags_.is_set("use-rotary-position-embeddings")) positions_ = "rope";
    const std::string rope = flags_.choice("rope-type", is_latent_ ? "yarn" : "rope", {"rope", "yarn"});
    if (positions_ == "rope" && rope == "yarn") positions_ = "yarn";
    if (is_latent_ && positions_ == "learned_absolute") positions_ = "yarn";
  }

  void read_mlps() {
    if (!has_experts()) return;
    mlps_ = words_of(flags_, "moe-layer-freq", layers_, Marks::first, "moe", "dense");
    if (std::find(mlps_.begin(), mlps_.end(), "moe") == mlps_.end() && !mlps_.empty()) experts_ = 0;
    const auto first = std::find(mlps_.begin(), mlps_.end(), "moe");
    const bool is_dense_first = std::find(first, mlps_.end(), "dense") == mlps_.end();
    is_mixed_ = has_experts() && !is_dense_first;
    if (has_experts() && is_dense_first) dense_first_ = first - mlps_.begin();
  }

  std::string block() const {
    if (is_latent_) return "deepseek";
    if (variant_ == "gated_delta_net" && has_experts() && shared_ > 0 && !is_mixed_ && dense_first_ == 0) return "qwen3_next";
    if (sinks_ && has_experts()) return "gpt_oss";
    if (!has_experts()) return is_gpt3() ? "gpt3" : "llama2";
    if (is_mixed_) return shared_ > 0 ? "qwen2_moe" : "qwen3_moe";
    if (shared_ > 0 && has_gate_ && dense_first_ == 0) return "qwen2_moe";
    return shared_ > 0 || dense_first_ > 0 || has_groups_ || learns_balance_ ? "deepseek" : "mixtral";
  }

  bool is_gpt3() const { return norm_ == "LayerNorm" && positions_ == "learned_absolute" && !is_gated_ && !has_groups_of_heads_; }

  void give_sizes() {
    width_ = needed(flags_, "hidden-size");
    heads_ = needed(flags_, "num-attention-heads");
    give("base_num_decoder_layers", layers_);
    give("base_emb_dim", width_);
    give("base_num_query_heads", heads_);
    if (norm_ == "LayerNorm" && !is_block("gpt3"))
      translation_.differ("--normalization LayerNorm: norms without a mean and a bias (RMSNorm) are planned");
    give("normalization_layer_epsilon", flags_.real("norm-epsilon"));
    const bool ties = !flags_.is_set("untie-embeddings-and-output-weights");
    give("logits_via_embedding", ties);
    if (ties) give("normalize_embedding_logits", false);
  }

  // A size that Megatron-LM has a default for.
  void give_size(std::string_view flag, std::string_view key, std::int64_t otherwise) {
    give(key, flags_.integer(flag, 1).value_or(otherwise));
  }

  // DeepSeek's sparse attention. With a loss over all keys Megatron-LM trains the rest too, which is planned as one over the chosen keys.
  void give_indexer() {
    give("use_indexer", true);
    give_size("dsa-indexer-n-heads", "indexer_n_heads", 64);
    give_size("dsa-indexer-head-dim", "indexer_head_dim", 128);
    const std::int64_t keys = flags_.integer("dsa-indexer-topk", 1).value_or(2048);
    give("indexer_topk", keys);
    const double factor = flags_.real("dsa-indexer-loss-coeff").value_or(0);
    const std::int64_t length = flags_.integer("seq-length", 1).value_or(0);
    if (factor == 0) return;
    if (keys >= length) {
      return translation_.differ(fmt::format("--dsa-indexer-loss-coeff: no loss is planned for an indexer that chooses {} of {}", keys,
                                             counted(length, "token")));
    }
    give("indexer_loss_scaling_factor", factor);
    give("indexer_sparse_training", true);
    if (!flags_.is_set("dsa-indexer-use-sparse-loss"))
      translation_.differ("--dsa-indexer-loss-coeff: the indexer's loss is planned over the keys that it chooses, not over all");
  }

  // Linear attention in all layers but the last of each cycle.
  void give_linear_attention() {
    give_size("linear-num-key-heads", "gdn_num_key_heads", 16);
    give_size("linear-num-value-heads", "gdn_num_value_heads", 32);
    give_size("linear-key-head-dim", "gdn_key_head_dim", 128);
    give_size("linear-value-head-dim", "gdn_value_head_dim", 128);
    give_size("linear-conv-kernel-dim", "gdn_conv_kernel_dim", 4);
    const std::vector<std::string> words = words_of(flags_, "linear-attention-freq", layers_, Marks::all_but_last, "linear", "full");
    const auto cycle = words.empty() ? std::size_t{4} : cycle_of(words);
    const auto full = std::count(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(std::min(cycle, words.size())), "full");
    if (!words.empty() && (full != 1 || words[cycle - 1] != "full"))
      translation_.differ("--linear-attention-freq: attention is planned in the last layer of each cycle, linear attention in others");
    cycle_ = static_cast<std::int64_t>(cycle);
    give("inhomogeneous_layer_cycle_interval", cycle_);
  }

  // What layers have besides plain attention.
  void give_variant(bool norms_heads) {
    const bool is_linear = is_block("qwen3_next"), gates = flags_.is_set("attention-output-gate");
    if (is_linear) {
      give_linear_attention();
      if (!gates) translation_.differ("attention's result has a gate here (--attention-output-gate)");
      if (!norms_heads) translation_.differ("queries and keys are normalised here (--qk-layernorm)");
    } else if (variant_ == "dsa" && is_latent_ && flags_.has("q-lora-rank")) {
      give_indexer();
    } else if (!variant_.empty()) {
      translation_.differ(fmt::format("--experimental-attention-variant {}: full attention is planned", variant_));
    }
    if (gates && !is_linear) translation_.differ("--attention-output-gate: attention's result has no gate here");
  }

  void give_attention() {
    const std::int64_t of_heads = flags_.integer("num-query-groups", 1).value_or(1);
    const std::optional<std::int64_t> head_dim = flags_.integer("kv-channels", 1);
    const bool norms_heads = flags_.is_set("qk-layernorm") || flags_.is_set("qk-l2-norm");
    give_variant(norms_heads);
    if (!is_latent_) give("base_num_kv_heads", has_groups_of_heads_ ? of_heads : heads_);
    if (is_latent_) {
      give("attention_type", "mla");
      give_size("q-lora-rank", "q_lora_rank", 0);
      give_size("kv-lora-rank", "kv_lora_rank", 32);
      give_size("qk-head-dim", "qk_nope_head_dim", 128);
      give_size("qk-pos-emb-head-dim", "qk_rope_head_dim", 64);
      give_size("v-head-dim", "v_head_dim", 128);
    } else {
      if (is_block("deepseek")) give("attention_type", "global");
      if (!head_dim && width_ % heads_ != 0)
        flags_.refuse_value("hidden-size", fmt::format("a multiple of {}, or --kv-channels", counted(heads_, "head")));
      give("head_dim", head_dim.value_or(width_ / heads_));
      if (norms_heads) give_head_norms();
      give_biases();
      give_parts_anywhere(norms_heads);
    }
    if (sinks_ && is_block("gpt_oss")) {
      give("attention_sink", true);
    } else if (sinks_) {
      translation_.differ("--softmax-type learnable: the softmax has no further column, which is a number a head");
    }
  }

  void give_head_norms() {
    if (is_block("gpt3")) {
      translation_.differ("--qk-layernorm: queries and keys are not normalised in this family");
    } else if (!is_block("qwen3_next")) {
      give("use_qk_norm", true);
    }
  }

  void give_biases() {
    if (is_block("gpt3")) return;
    if (is_block("qwen3_next")) {
      if (has_bias_ || has_qkv_bias_) translation_.differ("products have no biases here (--disable-bias-linear)");
      return;
    }
    if (has_bias_ || has_qkv_bias_) give("attention_bias", true);
    if (!has_bias_ && has_qkv_bias_) give("attention_out_bias", false);
    if (has_bias_ && is_block("gpt_oss")) give("mlp_bias", true);
    if (has_bias_ && !is_block("gpt_oss"))
      translation_.differ("no --disable-bias-linear: products of MLPs have no biases here, a vector each");
  }

  // MaxText's layers of most families ignore these parts.
  void give_parts_anywhere(bool norms_heads) {
    config::Settings told;
    told.set("decoder_block", std::string(block_), {});
    told.set("attention_bias", has_bias_ || has_qkv_bias_, {});
    told.set("use_qk_norm", norms_heads, {});
    if (asks_for_parts_anywhere(told)) give("bias_and_norm_anywhere", true);
  }

  void give_positions() {
    const auto length = flags_.integer("max-position-embeddings", 1);
    flags_.is_set("no-position-embedding");
    if (positions_ == "learned_absolute" || positions_ == "relative") {
      if (is_block("gpt3") && length) give("trainable_position_size", *length);
      if (!is_block("gpt3"))
        translation_.differ(fmt::format("positions are {} there: rotary ones are planned, which have no table", positions_));
      return;
    }
    give("rope_max_timescale", flags_.integer("rotary-base", 1, kMostAlone));
    if (const auto share = flags_.real("rotary-percent"); share && *share != 1) give("partial_rotary_factor", *share);
    if (flags_.is_set("use-rope-scaling")) {
      give("rope_type", "llama3.1");
      give("llama3_rope_factor", flags_.real("rope-scaling-factor").value_or(8));
    }
    give("rope_linear_scaling_factor", flags_.integer("rotary-seq-len-interpolation-factor", 1));
    const bool stretches = positions_ == "yarn" && flags_.real("rotary-scaling-factor").value_or(1) > 1;
    if (stretches) give_yarn();
    if (is_latent_ && !stretches) give("mscale", 0.0);  // scores are not scaled up for longer positions
  }

  void give_yarn() {
    const auto scale = flags_.real("mscale"), scale_of_scores = flags_.real("mscale-all-dim");
    give("rope_type", "yarn");
    give("rope_factor", flags_.real("rotary-scaling-factor"));
    if (is_latent_ && scale) give("mscale", scale_of_scores.value_or(*scale));
    give("beta_fast", flags_.real("yarn-beta-fast"));
    give("beta_slow", flags_.real("yarn-beta-slow"));
    give("original_max_position_embeddings", flags_.integer("yarn-original-max-position-embeddings", 1));
  }

  void give_mlp() {
    const auto [activation, says] = activations();
    if (!says.empty()) translation_.differ(says);
    if (is_block("gpt_oss"))
      give("mlp_activations", std::string("[sigmoid,linear]"));
    else if (activation != "[silu,linear]")
      give("mlp_activations", activation);
    const std::int64_t gated = static_cast<std::int64_t>(static_cast<double>(4 * width_) * 2 / 3 / 64) * 64;
    mlp_ = flags_.integer("ffn-hidden-size", 1).value_or(is_gated_ ? gated : 4 * width_);
    const bool has_dense = !has_experts() || dense_first_ > 0 || is_mixed_;
    if (has_dense) give("base_mlp_dim", mlp_);
  }

  std::pair<std::string, std::string> activations() {
    const bool is_squared = flags_.is_set("squared-relu");
    constexpr double kUnclamped = 1e6;
    if (is_block("gpt_oss")) give("mlp_activations_limit", flags_.real("activation-func-clamp-value").value_or(kUnclamped));
    if (is_gated_) return {"[silu,linear]", ""};
    if (is_quick_) return {"[gelu,linear]", is_block("gpt_oss") ? "" : "--quick-geglu: GELU in its tanh form is planned"};
    if (is_squared) return {"[relu]", "--squared-relu: a plain ReLU is planned, whose products are the same"};
    return {"[gelu]", ""};
  }

  void give_experts() {
    give("num_experts", experts_);
    give("num_experts_per_tok", flags_.integer("moe-router-topk", 1).value_or(2));
    const std::int64_t width = flags_.integer("moe-ffn-hidden-size", 1).value_or(mlp_);
    if (!is_gated_ && !is_quick_) {
      refuse("experts without a gate, which no family has", kFromMegatron,
             fmt::format("--swiglu --moe-ffn-hidden-size {}, with about as many parameters", std::max<std::int64_t>(1, width * 2 / 3)));
    }
    if (!is_block("gpt_oss")) give("base_moe_mlp_dim", width);
    const bool has_no_dense = is_block("mixtral") || is_block("qwen3_next") || (is_block("deepseek") && dense_first_ == 0);
    if (is_block("gpt_oss") || has_no_dense) give("base_mlp_dim", width);
    if (shared_ > 0) give_shared();
    give_routing();
  }

  void give_shared() {
    const bool has_gate_here = is_block("qwen2_moe") || is_block("qwen3_next");
    if (!is_block("qwen3_next")) give("shared_experts", std::int64_t{1});
    give("shared_expert_mlp_dim", shared_);
    if (has_gate_ && !has_gate_here)
      translation_.differ("--moe-shared-expert-gate: the shared expert has no gate here, a vector a layer");
    if (!has_gate_ && has_gate_here) translation_.differ("the shared expert has a gate here, a vector a layer");
  }

  void give_routing() {
    const std::string score = flags_.choice("moe-router-score-function", "softmax", {"softmax", "sigmoid", "sqrtsoftplus"});
    const bool is_before = flags_.is_set("moe-router-pre-softmax");
    if (score == "sqrtsoftplus") translation_.differ("--moe-router-score-function sqrtsoftplus: a sigmoid is planned");
    if (score != "softmax") give("routed_score_func", "sigmoid");
    const bool is_alone = flags_.integer("moe-router-topk", 1).value_or(2) == 1;
    const char* weights = score != "softmax" ? (is_alone ? "scores" : "normalized") : is_before ? "scores" : "softmax";
    if (!is_block("gpt_oss")) give("routed_weights", weights);
    if (learns_balance_ || is_block("gpt_oss")) give("routed_bias", true);
    const auto rate = flags_.real("moe-router-bias-update-rate");
    if (learns_balance_ && is_block("deepseek")) give("routed_bias_update_rate", rate.value_or(1e-3));
    give_groups();
    give_balance();
    if (flags_.choice("moe-router-dtype", "", {"fp32", "fp64"}) != "") give("float32_gate_logits", true);
    if (flags_.is_set("moe-router-force-load-balancing")) give("use_random_routing", true);
  }

  void give_groups() {
    const auto factor = flags_.real("moe-router-topk-scaling-factor");
    const auto groups = flags_.integer("moe-router-num-groups", 1), chosen = flags_.integer("moe-router-group-topk", 1);
    if (factor && is_block("deepseek")) give("routed_scaling_factor", *factor);
    if (!groups || *groups == 1) return;
    if (!is_block("deepseek")) {
      translation_.differ("--moe-router-num-groups: experts are chosen among all groups in this family");
      return;
    }
    give("routing_group_score", flags_.integer("moe-router-topk", 1).value_or(2) / chosen.value_or(*groups) > 1 ? "best_two" : "best");
    give("n_routing_groups", *groups);
    give("topk_routing_group", chosen.value_or(*groups));
  }

  void give_balance() {
    const Flag* types = flags_.find("moe-router-load-balancing-type");
    const Flag* weights = flags_.find("moe-aux-loss-coeff");
    const std::string type = types == nullptr || types->values.empty() ? "aux_loss" : types->values.front();
    if (type == "sinkhorn" || type == "quantile_balancing")
      translation_.differ(fmt::format("--moe-router-load-balancing-type {}: nothing evens out the experts' load here", type));
    if (weights == nullptr || !type.ends_with("aux_loss")) return;
    const std::optional<double> weight = weights->values.empty() ? std::nullopt : parse_real(weights->values.front());
    if (!weight || *weight < 0) flags_.refuse_value("moe-aux-loss-coeff", "a number from 0");
    give("load_balance_loss_weight", *weight);
  }

  // Describes layers that differ by the shortest cycle in which they repeat.
  void give_layers() {
    if (is_block("deepseek")) give("first_num_dense_layers", dense_first_);
    const std::vector<std::string> attention = sights();
    const std::vector<std::string> positions = words_of(flags_, "no-rope-freq", layers_, Marks::last, "none", "rotary");
    const std::vector<std::string> mlps = is_mixed_ ? mlps_ : std::vector<std::string>();
    const bool has_own = is_block("deepseek") || is_block("gpt3") || is_block("qwen3_next");
    if (has_own && (!attention.empty() || !positions.empty())) {
      translation_.differ("--window-size and --no-rope-freq: all layers of this family see all tokens, and turn by their positions");
      return;
    }
    if (is_block("qwen3_next")) return;
    const std::size_t cycle = std::lcm(cycle_of(attention), std::lcm(cycle_of(positions), cycle_of(mlps)));
    cycle_ = static_cast<std::int64_t>(cycle);
    if (attention.empty() && positions.empty() && mlps.empty()) return;
    give("inhomogeneous_layer_cycle_interval", cycle_);
    const auto list = [&](std::string_view key, std::vector<std::string> words) {
      if (words.empty()) return;
      words.resize(cycle);
      give(key, "[" + join(words, ",") + "]");
    };
    list("layer_attention", attention);
    list("layer_positions", positions);
    list("layer_mlp", mlps);
  }

  // Multi-token prediction. A module of a model whose layers differ has a whole cycle of them here, so none are planned for such a model.
  void give_modules() {
    const std::int64_t modules = flags_.integer("mtp-num-layers", 0).value_or(0);
    const double factor = flags_.real("mtp-loss-scaling-factor").value_or(0.1);
    if (modules == 0) return;
    if (is_block("gpt3") || cycle_ > 1) {
      translation_.differ("--mtp-num-layers: this family predicts no further tokens: those layers' parameters, memory and time are "
                          "missing");
      return;
    }
    translation_.differ("--mtp-num-layers: its modules have no norm of their own before the output projection");
    give("mtp_num_layers", modules);
    give("mtp_loss_scaling_factor", factor);
  }

  // The attention of each layer. --window-size is "127,0": the tokens before and after a token that it attends to besides itself.
  std::vector<std::string> sights() {
    const std::optional<std::string> window = flags_.text("window-size");
    std::vector<std::string> words = words_of(flags_, "window-attn-skip-freq", layers_, Marks::all_but_last, "sliding", "full");
    if (!window) return {};
    std::string numbers = *window;
    std::erase_if(numbers, [](char c) { return c == '(' || c == ')'; });
    const std::optional<std::int64_t> before = parse_integer(numbers.substr(0, numbers.find(',')));
    if (!before || *before < 0 || *before > kMostOfAFlag) flags_.refuse_value("window-size", "two numbers, such as 127,0");
    give("sliding_window_size", *before + 1);
    return words.empty() ? std::vector<std::string>(static_cast<std::size_t>(layers_), "sliding") : words;
  }

  // The tokenizer of pretrain_gpt.py is GPT-2's unless it is told otherwise.
  std::optional<Vocabulary> vocabulary() {
    const std::optional<std::string> type = flags_.text("tokenizer-type");
    const Flag* model = flags_.find("tokenizer-model");
    if (const auto found = vocabulary_of(model == nullptr ? "" : join(model->values, " "))) return found;
    return vocabulary_of(type.value_or(model == nullptr ? "GPT2BPETokenizer" : ""));
  }

  void give_vocabulary(std::int64_t tensor) {
    const std::optional<std::int64_t> padded = flags_.integer("padded-vocab-size", 1), asked = flags_.integer("vocab-size", 1);
    const std::int64_t unit = flags_.integer("make-vocab-size-divisible-by", 1).value_or(128) * tensor;
    const bool pads = !flags_.is_set("no-pad-vocab-size") && !flags_.is_set("disable-pad-vocab-size");
    const bool is_known = asked || padded || translation_.is_own("vocab_size");
    const std::optional<Vocabulary> guessed = is_known ? std::nullopt : vocabulary();
    constexpr std::int64_t kUnknown = 32000;
    const std::int64_t words = asked.value_or(guessed ? guessed->words : kUnknown), planned = pads ? round_up(words, unit) : words;
    give("vocab_size", padded.value_or(planned));
    if (is_known) return;
    const std::string counted_words = with_commas(words) + " words" + (guessed ? " of " + guessed->of : "");
    translation_.assume(fmt::format("no --vocab-size{}: {}{} are planned; vocab_size= says otherwise",
                                    guessed ? "" : ", and moesh does not know the tokenizer's", counted_words,
                                    planned == words ? "" : fmt::format(", padded to {},", with_commas(planned))));
  }

  Flags& flags_;
  Translation& translation_;
  std::string block_, variant_, norm_, positions_;
  std::int64_t layers_ = 0, dense_first_ = 0, width_ = 0, heads_ = 0, mlp_ = 0, shared_ = 0, experts_ = 0, cycle_ = 1;
  std::vector<std::string> mlps_;  // "dense" or "moe" per layer
  bool is_latent_ = false, is_mixed_ = false, has_bias_ = false, has_qkv_bias_ = false, is_gated_ = false, is_quick_ = false;
  bool has_gate_ = false, sinks_ = false, has_groups_ = false, learns_balance_ = false, has_groups_of_heads_ = false;
};

}  // namespace

ModelFacts give_megatron_model(Flags& flags, std::int64_t tensor, Translation& translation) {
  return Model(flags, translation).give(tensor);
}

}  // namespace moesh::foreign
