#include "config/model_shape.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"
#include "config/attention_parts.h"
#include "config/model_check.h"
#include "config/optimizer.h"

namespace moesh::config {
namespace {

// The doublings of global_parameter_scale go, in this order, to heads and MLP width, to the embedding, and to layers.
struct Scales {
  std::int64_t emb = 1, heads = 1, mlp = 1, layers = 1;
};

Scales scales_of(const Settings& settings) {
  const std::int64_t scale = settings.integer("global_parameter_scale");
  if (scale < 1 || !std::has_single_bit(static_cast<std::uint64_t>(scale))) {
    refuse(fmt::format("global_parameter_scale is {}, a power of two was expected", scale),
           settings.origin("global_parameter_scale").where, "set base_emb_dim and its like for other sizes");
  }
  const int log2 = std::countr_zero(static_cast<std::uint64_t>(scale));
  const int third = log2 / 3;
  const int rest = log2 % 3;
  const std::int64_t heads = std::int64_t{1} << (third + (rest > 0 ? 1 : 0));
  return {std::int64_t{1} << (third + (rest > 1 ? 1 : 0)), heads, heads, std::int64_t{1} << third};
}

std::int64_t share_of(std::int64_t dim, double share) { return static_cast<std::int64_t>(static_cast<double>(dim) * share); }

AttentionShape attention_of(const Settings& settings, const Scales& scales) {
  AttentionShape shape;
  shape.query_heads = settings.integer("base_num_query_heads") * scales.heads;
  shape.kv_heads = settings.integer("base_num_kv_heads") * scales.heads;
  shape.head_dim = settings.integer("head_dim");
  shape.rotary_dim = share_of(shape.head_dim, settings.real("partial_rotary_factor"));
  shape.fused = settings.boolean("fused_qkv");
  shape.scales_query_by_position = settings.boolean("temperature_tuning");
  shape.bias = settings.boolean("attention_bias") && takes_attention_bias(settings);
  shape.out_bias = shape.bias && settings.boolean("attention_out_bias");
  shape.sinks = settings.boolean("attention_sink");
  shape.shares_values = block_of(settings) == Block::plain && settings.boolean("share_kv_projections");
  shape.score_scale = settings.real("attention_score_scale");
  shape.latent = has_latent_attention(settings);
  if (shape.latent) shape.kv_heads = shape.query_heads;  // a latent is all heads'
  shape.q_lora_rank = settings.integer("q_lora_rank");
  shape.out_groups = settings.integer("o_groups");
  shape.out_rank = settings.integer("o_lora_rank");
  shape.kv_lora_rank = settings.integer("kv_lora_rank");
  shape.qk_nope_head_dim = settings.integer("qk_nope_head_dim");
  shape.qk_rope_head_dim = settings.integer("qk_rope_head_dim");
  shape.v_head_dim = settings.integer("v_head_dim");
  const double own_epsilon = settings.real("mla_norm_epsilon");
  shape.latent_norm_epsilon = own_epsilon < 0 ? settings.real("normalization_layer_epsilon") : own_epsilon;
  if (settings.boolean("use_indexer") || block_of(settings) == Block::deepseek4) {
    shape.index_heads = settings.integer("indexer_n_heads");
    shape.index_dim = settings.integer("indexer_head_dim");
    shape.index_keys = settings.integer("indexer_topk");
  }
  if (shape.query_heads % shape.kv_heads != 0) {
    refuse(fmt::format("{} query heads over {} key/value heads, a whole number for each was expected",
                       shape.query_heads, shape.kv_heads),
           settings.origin("base_num_kv_heads").where, "choose base_num_kv_heads so that it divides");
  }
  return shape;
}

StreamShape streams_of(const Settings& settings) {
  return {settings.integer("mhc_expansion_rate"), settings.boolean("enable_mhc_lite") ? 0 : settings.integer("sinkhorn_iterations"),
          block_of(settings) == Block::deepseek4};
}

DeltaShape delta_of(const Settings& settings) {
  DeltaShape shape;
  shape.key_heads = settings.integer("gdn_num_key_heads");
  shape.value_heads = settings.integer("gdn_num_value_heads");
  shape.key_dim = settings.integer("gdn_key_head_dim");
  shape.value_dim = settings.integer("gdn_value_head_dim");
  shape.window = settings.integer("gdn_conv_kernel_dim");
  shape.norms_keys = settings.boolean("use_qk_norm_in_gdn");
  return shape;
}

// The heads of Gemma 4: those of all layers, and those of layers with full attention.
void give_gemma4_heads(ModelShape& shape, const Settings& settings) {
  AttentionShape& heads = shape.attention;
  heads.norms_values = true;
  heads.scales_value_norm = settings.boolean("v_norm_with_scale");
  heads.rotates_half_prefixes = true;
  heads.scales_query = true;
  if (heads.score_scale < 0) heads.score_scale = 1;
  const auto own = [&](const char* key, std::int64_t otherwise) {
    const std::int64_t given = settings.integer(key);
    return given > 0 ? given : otherwise;
  };
  GlobalHeads& global = shape.global_heads;
  global.kv_heads = own("global_num_kv_heads", heads.kv_heads);
  global.head_dim = own("global_head_dim", heads.head_dim);
  global.shares_values = settings.boolean("share_kv_projections");
  const bool turns_whole_heads = settings.text("rope_type") != "default" || uses_llama3_rope(settings);
  const auto rotary_dim_of = [&](std::int64_t dim, const char* share) {
    return turns_whole_heads ? dim : share_of(dim, settings.real(share)) / 2 * 2;
  };
  heads.rotary_dim = rotary_dim_of(heads.head_dim, "local_rope_proportion");
  global.rotary_dim = rotary_dim_of(global.head_dim, "global_rope_proportion");
  if (heads.query_heads % global.kv_heads != 0) {
    refuse(fmt::format("{} query heads over {} key/value heads of global layers, a whole number for each was expected", heads.query_heads,
                       global.kv_heads),
           settings.origin("global_num_kv_heads").where, "choose global_num_kv_heads so that it divides");
  }
}

ScoreFunction score_function_of(const Settings& settings) {
  const std::string& word = settings.text("routed_score_func");
  if (word == "softmax") return ScoreFunction::softmax;
  if (word == "sigmoid") return ScoreFunction::sigmoid;
  return word == "sqrtsoftplus" ? ScoreFunction::sqrtsoftplus : ScoreFunction::none;
}

RoutingShape routing_of(const Settings& settings) {
  const Block block = block_of(settings);
  const std::string& asked = settings.text("routed_weights");
  RoutingShape of;
  of.score_function = score_function_of(settings);
  const bool has_scores = is_deepseek(block) || block == Block::llama4 || block == Block::gemma4;
  of.softmax_of_chosen = asked.empty() ? !has_scores : asked == "softmax";
  of.normalize = !asked.empty()        ? asked == "normalized"
                 : is_deepseek(block) ? of.score_function == ScoreFunction::sigmoid || of.score_function == ScoreFunction::sqrtsoftplus
                                       : settings.boolean("norm_topk_prob");
  of.weighs_without_bias = routes_by_groups(settings);
  if (of.weighs_without_bias) of.groups = std::max<std::int64_t>(0, settings.integer("n_routing_groups"));
  if (of.groups > 0) of.chosen_groups = settings.integer("topk_routing_group");
  if (of.groups > 0 && settings.text("routing_group_score") == "best") of.group_score_terms = 1;
  if (!is_deepseek(block)) return of;
  of.normalize_epsilon = 1e-20;
  of.scale = settings.real("routed_scaling_factor");
  return of;
}

MoeShape moe_of(const Settings& settings, const Scales& scales) {
  MoeShape shape;
  shape.experts = settings.integer("num_experts");
  shape.experts_per_token = settings.integer("num_experts_per_tok");
  const std::int64_t own_dim = settings.integer("base_moe_mlp_dim");
  const bool has_own_dim = own_dim > 0 && !is_one_of(block_of(settings), {Block::gpt_oss, Block::mixtral});
  shape.mlp_dim = (has_own_dim ? own_dim : settings.integer("base_mlp_dim")) * scales.mlp;
  // Qwen3-Next has one, whatever the key says.
  shape.shared_experts = has_delta_layers(settings) ? 1 : settings.integer("shared_experts");
  const std::int64_t shared_dim = settings.integer("shared_expert_mlp_dim");
  const bool is_gemma = block_of(settings) == Block::gemma4;
  const std::int64_t own_shared_dim = is_gemma ? settings.integer("base_mlp_dim") * scales.mlp : shape.mlp_dim;
  shape.shared_dim = shape.shared_experts * (shared_dim > 0 ? shared_dim * scales.mlp : own_shared_dim);
  shape.routing = routing_of(settings);
  shape.routed_bias = settings.boolean("routed_bias");
  shape.bias = settings.boolean("mlp_bias");
  if (clamps_experts(settings)) shape.limit = std::max(0.0, settings.real("mlp_activations_limit"));
  shape.strategy = strategy_of(settings);
  shape.ring = settings.boolean("use_ring_of_experts");
  shape.buffer_factor = settings.real("ragged_buffer_factor");
  shape.token_chunks = settings.integer("num_moe_token_chunks");
  shape.width_chunks = std::max<std::int64_t>(1, settings.integer("num_moe_emb_chunks"));
  shape.overlaps = shape.token_chunks > 1 ? !settings.boolean("moe_chunk_barrier") : shape.width_chunks > 1;
  shape.capacity_factor = settings.real("capacity_factor");
  shape.peel_dispatch = settings.boolean("moe_dispatch_no_expert_sharding");
  return shape;
}

// Whether the family's own layers differ from each other.
bool has_own_cycle(Block block) {
  return is_one_of(block, {Block::gpt_oss, Block::llama4, Block::olmo3, Block::gemma2, Block::gemma3, Block::gemma4, Block::envy,
                           Block::qwen3_next});
}

HeadNorm head_norm_of(Block block, const Settings& settings) {
  if (is_one_of(block, {Block::gemma3, Block::gemma4, Block::qwen3_next})) return HeadNorm::each;
  if (!settings.boolean("use_qk_norm") || !takes_head_norms(settings)) return HeadNorm::none;
  return block == Block::llama4 ? HeadNorm::after_rope : block == Block::olmo3 ? HeadNorm::all : HeadNorm::each;
}

// For each layer of a cycle that `key` lists, the index in `known` of its word. Empty if the key is.
std::vector<std::size_t> of_cycle(const Settings& settings, const char* key, const std::vector<std::string>& known) {
  const std::vector<std::string>& words = settings.texts(key);
  const std::int64_t cycle = settings.integer("inhomogeneous_layer_cycle_interval");
  if (!words.empty() && static_cast<std::int64_t>(words.size()) != cycle) {
    refuse(fmt::format("{} has {}, for cycles of {}", key, counted(static_cast<std::int64_t>(words.size()), "word"),
                       counted(cycle, "layer")),
           settings.origin(key).where, fmt::format("inhomogeneous_layer_cycle_interval={}", words.size()));
  }
  std::vector<std::size_t> made;
  for (const std::string& word : words) {
    const auto found = std::find(known.begin(), known.end(), word);
    if (found == known.end())
      refuse(fmt::format("{} holds '{}', {} was expected", key, shorten(word, 40), join(known, " or ")), settings.origin(key).where);
    made.push_back(static_cast<std::size_t>(found - known.begin()));
  }
  return made;
}

enum class Sight : std::size_t { full, sliding, chunked };

// What the layers of a family are if no key says otherwise; `layer`: which of them.
struct OwnLayer {
  Block block;
  const Settings& settings;
  std::int64_t layer;

  std::int64_t layers_to_a_full_one() const {
    switch (block) {
      case Block::gpt_oss:
      case Block::gemma2: return 2;
      case Block::olmo3: return 4;
      case Block::gemma3:
      case Block::gemma4: return 6;
      default: return 1;
    }
  }
  bool is_last_of(std::int64_t interval) const { return interval > 0 && (layer + 1) % interval == 0; }
  bool has_rope() const { return block != Block::llama4 || !is_last_of(settings.integer("nope_layer_interval")); }
  Sight sight(bool turns_here) const {
    if (block == Block::llama4) return turns_here ? Sight::chunked : Sight::full;
    return is_last_of(layers_to_a_full_one()) ? Sight::full : Sight::sliding;
  }
  bool is_linear() const {
    return block == Block::qwen3_next && !is_last_of(settings.integer("inhomogeneous_layer_cycle_interval"));
  }
  bool has_experts() const {
    const bool interleaves = block == Block::llama4 || block == Block::envy;
    return !interleaves || is_last_of(settings.integer("interleave_moe_layer_step"));
  }
};

// DeepSeek 4's layers, one by one.
std::vector<LayerShape> compressed_layers(const ModelShape& shape, const Settings& settings) {
  const std::vector<std::int64_t>& pooled = settings.integers("compress_ratios");
  const auto count = static_cast<std::size_t>(std::min(shape.layers, kMostWrittenLayers));
  if (pooled.size() < count) {
    refuse(fmt::format("compress_ratios has {}, for {}", counted(static_cast<std::int64_t>(pooled.size()), "number"),
                       counted(shape.layers, "layer")),
           settings.origin("compress_ratios").where, "a number for each layer: how many tokens make a key, or 0 for none such");
  }
  std::vector<LayerShape> made(count);
  for (std::size_t i = 0; i < count; ++i) {
    made[i].window = settings.integer("sliding_window_size");
    made[i].pooled = pooled[i];
    made[i].has_experts = true;
    made[i].has_given_experts = static_cast<std::int64_t>(i) < shape.given_layers;
  }
  return made;
}

std::vector<LayerShape> layers_of_cycle(const ModelShape& shape, const Settings& settings) {
  if (shape.block == Block::deepseek4) return compressed_layers(shape, settings);
  const std::vector<std::size_t> sight = of_cycle(settings, "layer_attention", {"full", "sliding", "chunked"});
  const std::vector<std::size_t> positions = of_cycle(settings, "layer_positions", {"rotary", "none"});
  const std::vector<std::size_t> mlp = of_cycle(settings, "layer_mlp", {"dense", "moe"});
  const bool none_is_told = sight.empty() && positions.empty() && mlp.empty();
  // If nothing is stacked, the pattern of the family's own layers goes on from layer to layer, whatever the cycle.
  const bool are_all_written = none_is_told && has_own_cycle(shape.block) && !shape.scan && !shape.has_pairs;
  const bool are_alike = none_is_told && !has_own_cycle(shape.block);
  const std::int64_t count = are_alike ? 1 : shape.has_pairs ? 2 : are_all_written ? shape.layers : shape.cycle;
  std::vector<LayerShape> made(static_cast<std::size_t>(std::min(count, kMostWrittenLayers)));
  for (std::size_t i = 0; i < made.size(); ++i) {
    const OwnLayer own{shape.block, settings, static_cast<std::int64_t>(i)};
    made[i].has_rope = positions.empty() ? own.has_rope() : positions[i % positions.size()] == 0;
    const Sight sees = sight.empty() ? own.sight(made[i].has_rope) : static_cast<Sight>(sight[i % sight.size()]);
    made[i].is_linear = own.is_linear();
    if (sees == Sight::sliding) made[i].window = settings.integer("sliding_window_size");
    made[i].has_global_heads = shape.block == Block::gemma4 && sees == Sight::full;
    if (sees == Sight::chunked) made[i].chunk = settings.integer("chunk_attn_window_size");
    made[i].has_experts = shape.is_moe() && (mlp.empty() ? own.has_experts() : mlp[i % mlp.size()] == 1);
    if (sees == Sight::chunked && made[i].chunk == 0) {
      refuse("layers see chunks of the sequence, and chunk_attn_window_size is 0",
             settings.origin("chunk_attn_window_size").where, "give their length");
    }
  }
  return made;
}

}  // namespace

bool leaves_out_entropy(const Settings& settings) {
  return settings.boolean("use_indexer") && settings.real("indexer_loss_scaling_factor") > 0 &&
         !settings.boolean("indexer_sparse_training");
}

AttentionShape ModelShape::attention_of(const LayerShape& layer) const {
  AttentionShape shape = attention;
  if (!layer.has_global_heads) return shape;
  shape.kv_heads = global_heads.kv_heads;
  shape.head_dim = global_heads.head_dim;
  shape.rotary_dim = global_heads.rotary_dim;
  shape.shares_values = global_heads.shares_values;
  return shape;
}

std::int64_t ModelShape::moe_layers() const {
  if (!is_moe() || block == Block::deepseek) return layers - dense_layers + prediction_modules;
  std::int64_t of_module = 0;
  for (const LayerShape& layer : of_cycle) of_module += layer.has_experts ? 1 : 0;
  std::int64_t count = prediction_modules * of_module;
  for (std::int64_t layer = 0; layer < layers; ++layer) count += this->layer(layer % layers_per_cycle()).has_experts ? 1 : 0;
  return count;
}

std::string known_name(const Settings& settings) {
  const std::string& name = settings.text("model_name");
  if (!is_yaml_path(name)) return name;
  const std::size_t folder = name.rfind('/') + 1;
  return name.substr(folder, name.rfind('.') - folder);
}

bool routes_by_groups(const Settings& settings) {
  if (block_of(settings) == Block::deepseek4) return true;
  if (block_of(settings) != Block::deepseek) return false;
  return !settings.text("routing_group_score").empty() || known_name(settings).starts_with("deepseek3");
}

bool clamps_experts(const Settings& settings) {
  const Block block = block_of(settings);
  return block == Block::gpt_oss || (is_deepseek(block) && settings.integer("num_experts") > 1);
}

bool caps_scores(const Settings& settings) {
  return is_one_of(block_of(settings), {Block::llama2, Block::deepseek, Block::gemma2, Block::gemma3, Block::gemma4});
}

bool has_delta_layers(const Settings& settings) { return block_of(settings) == Block::qwen3_next; }

bool has_latent_attention(const Settings& settings) {
  return block_of(settings) == Block::deepseek && settings.text("attention_type") == "mla";
}

bool is_gemma(const Settings& settings) {
  return is_one_of(block_of(settings), {Block::gemma, Block::gemma2, Block::gemma3, Block::gemma4});
}

bool stretches_positions(const Settings& settings) {
  return settings.integer("max_position_embeddings") > settings.integer("original_max_position_embeddings");
}

MoeStrategy strategy_of(const Settings& settings) {
  if (settings.boolean("sparse_matmul")) return MoeStrategy::sparse;
  return settings.real("capacity_factor") > 0 ? MoeStrategy::capacity : MoeStrategy::dense;
}

bool uses_llama3_rope(const Settings& settings) {
  return settings.text("rope_type") == "llama3.1" || known_name(settings).starts_with("llama3.1");
}

bool turns_as_yarn(const Settings& settings) { return !uses_llama3_rope(settings) && settings.text("rope_type") == "yarn"; }

bool turns_plainly(const Settings& settings) { return !uses_llama3_rope(settings) && !turns_as_yarn(settings); }

std::optional<WindowRotation> rotation_of_windows(const Settings& settings) {
  const std::int64_t own = settings.integer("local_rope_max_timescale");
  const std::int64_t longest = own > 0 ? own : settings.integer("rope_max_timescale");
  if (settings.text("local_rope_type") == "default") return WindowRotation{longest};
  if (!turns_plainly(settings)) return std::nullopt;
  const bool is_gemma3 = known_name(settings).starts_with("gemma3");  // MaxText goes by the name
  if (own <= 0 && !is_gemma3) return std::nullopt;
  return WindowRotation{longest, settings.integer("rope_min_timescale"),
                        is_gemma3 ? 1 : settings.real("rope_linear_scaling_factor")};
}

bool rope_is_interleaved(const Settings& settings) {
  return uses_llama3_rope(settings) || (turns_as_yarn(settings) && settings.boolean("rope_interleave"));
}

bool routes_at_random(const Settings& settings) {
  return settings.boolean("use_random_routing") || settings.real("router_skew") >= 0;
}

DType first_moment_dtype(const Settings& settings) {
  const bool says = optimizer_of(settings) != Optimizer::adam_pax && !settings.text("mu_dtype").empty();
  return parse_dtype(settings.text(says ? "mu_dtype" : "weight_dtype")).value_or(DType::float32);
}

namespace {

void give_attention(const Settings& settings, const Scales& scales, ModelShape& shape) {
  shape.attention = attention_of(settings, scales);
  shape.attention.norm = head_norm_of(shape.block, settings);
  shape.attention.scales_norm = settings.boolean("qk_norm_with_scale") || shape.block == Block::qwen3_next;
  const std::int64_t own_dim = shape.block == Block::qwen3_custom_moe ? settings.integer("attention_output_dim") : -1;
  shape.attention.out_dim = own_dim > 0 ? own_dim : shape.emb_dim;
  if (caps_scores(settings)) shape.attention.score_cap = settings.real("attn_logits_soft_cap");
  shape.attention.gates_out = shape.attention.flat_out = shape.block == Block::qwen3_next;
  if (shape.block == Block::gpt3) shape.attention.bias = shape.attention.out_bias = true;
  if (shape.block == Block::qwen2) shape.attention.out_bias = false;
  shape.attention.scales_query = has_own_scale(shape.block) || shape.attention.latent || shape.attention.score_scale >= 0;
  shape.attention.scales_query_init = !shape.attention.scales_query && !settings.boolean("use_qk_norm");
  if (shape.block == Block::gemma4) give_gemma4_heads(shape, settings);
  if (known_name(settings) == "gemma3-27b" && shape.attention.score_scale < 0)
    shape.attention.score_scale = 1 / std::sqrt(static_cast<double>(shape.emb_dim / shape.attention.query_heads));
}

void give_experts(const Settings& settings, const Scales& scales, ModelShape& shape) {
  shape.moe = moe_of(settings, scales);
  if (shape.is_moe() && settings.boolean("use_batch_split_schedule")) shape.batch_parts = settings.integer("batch_split_factor");
  shape.moe.weights_inputs = shape.block == Block::llama4;
  shape.moe.softmax_over_all = shape.block == Block::gemma4;
  const std::int64_t own_dim = shape.block == Block::qwen3_custom_moe ? settings.integer("moe_expert_input_dim") : -1;
  shape.moe.input_dim = own_dim > 0 ? own_dim : shape.emb_dim;
}

}  // namespace

ModelShape model_shape(const Settings& settings) {
  const Scales scales = scales_of(settings);
  ModelShape shape;
  shape.name = settings.text("model_name");
  shape.block = block_of(settings);
  shape.emb_dim = settings.integer("base_emb_dim") * scales.emb;
  shape.layers = settings.integer("base_num_decoder_layers") * scales.layers;
  shape.dense_layers = shape.block == Block::deepseek ? settings.integer("first_num_dense_layers") : 0;
  shape.given_layers = shape.block == Block::deepseek4 ? settings.integer("first_num_hash_layers") : 0;
  shape.scan = settings.boolean("scan_layers");
  const bool has_own_sights = settings.texts("layer_attention").empty();
  shape.has_pairs = shape.block == Block::gemma2 && has_own_sights;
  shape.cycle = settings.integer("inhomogeneous_layer_cycle_interval");
  if (shape.has_pairs || is_deepseek(shape.block)) shape.cycle = 1;
  if ((shape.block == Block::gemma3 || shape.block == Block::gemma4) && has_own_sights) shape.cycle = 6;
  shape.nests_layers = shape.block == Block::gemma4 && has_own_sights;
  give_attention(settings, scales, shape);
  shape.streams = streams_of(settings);
  if (shape.block == Block::qwen3_next) shape.delta = delta_of(settings);
  give_experts(settings, scales, shape);
  shape.mlp_dim = settings.integer("base_mlp_dim") * scales.mlp;
  shape.mlp_activations = settings.texts("mlp_activations");
  shape.vocab_size = settings.integer("vocab_size");
  shape.position_rows = std::max<std::int64_t>(0, settings.integer("trainable_position_size"));
  shape.tied_embedding = settings.boolean("logits_via_embedding");
  shape.logits_cap = settings.real(shape.tied_embedding ? "final_logits_soft_cap" : "untied_logits_soft_cap");
  shape.norm_epsilon = settings.real("normalization_layer_epsilon");
  shape.layer_norm_epsilon = is_gemma(settings) ? settings.real("layer_norm_epsilon") : shape.norm_epsilon;
  shape.weight_dtype = parse_dtype(settings.text("weight_dtype")).value();
  shape.compute_dtype = parse_dtype(settings.text("dtype")).value();
  shape.float32_gate_logits = settings.boolean("float32_gate_logits");
  shape.float32_activations = settings.boolean("activations_in_float32");
  shape.gathers_kv = settings.text("attention") != "dot_product";
  shape.labels_layer_norms = shape.block != Block::qwen3_next;
  shape.norm_scale_is_offset = is_one_of(shape.block, {Block::gpt3, Block::qwen3_next}) || settings.boolean("norm_scales_above_one");
  shape.scales_embedding = settings.boolean("scale_embeddings");
  const bool may_norm = is_one_of(shape.block, {Block::gemma2, Block::gemma3, Block::gemma4}), is_olmo = shape.block == Block::olmo3;
  shape.norms_attention = is_olmo || (may_norm && settings.boolean("use_post_attn_norm"));
  shape.norms_mlp = is_olmo || ((may_norm || shape.block == Block::envy) && settings.boolean("use_post_ffw_norm"));
  shape.of_cycle = layers_of_cycle(shape, settings);
  shape.prediction_modules = settings.integer("mtp_num_layers");
  check_model(shape, settings);
  return shape;
}

}  // namespace moesh::config
