#include "config/model_check.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"
#include "config/pipeline.h"
#include "config/relevance.h"

namespace moesh::config {
namespace {

bool has_experts(Block block) {
  return is_deepseek(block) || is_one_of(block, {Block::mixtral, Block::qwen2_moe, Block::qwen3_moe, Block::qwen3_custom_moe,
                                                 Block::gpt_oss, Block::llama4, Block::envy, Block::qwen3_next});
}

// Whether the interval says how layers differ; Gemma 3 and 4 and DeepSeek have ways of their own, and only moesh has qwen2_moe.
bool may_have_interval(const ModelShape& shape, const Settings& settings) {
  return has_cycles(settings) || is_deepseek(shape.block) || is_one_of(shape.block, {Block::gemma3, Block::gemma4, Block::qwen2_moe});
}

// Where layers do not differ, MaxText stacks one for each interval, and leaves out the others.
void check_interval(const ModelShape& shape, const Settings& settings) {
  const std::int64_t interval = settings.integer("inhomogeneous_layer_cycle_interval");
  if (!shape.scan || interval <= 1 || may_have_interval(shape, settings)) return;
  refuse(fmt::format("inhomogeneous_layer_cycle_interval={} is no part of decoder_block={}: MaxText would build {} of its {}", interval,
                     settings.text("decoder_block"), shape.layers / interval, counted(shape.layers, "layer")),
         settings.origin("inhomogeneous_layer_cycle_interval").where, "inhomogeneous_layer_cycle_interval=1");
}

void check_layers(const ModelShape& shape, const Settings& settings) {
  if (shape.dense_layers > shape.layers) {
    refuse(fmt::format("first_num_dense_layers is {}, of {} in all", shape.dense_layers, counted(shape.layers, "layer")),
           settings.origin("first_num_dense_layers").where, "lower it, or raise base_num_decoder_layers");
  }
  if (!shape.scan && shape.layers > kMostWrittenLayers) {
    refuse(fmt::format("{} one by one (scan_layers=false), at most {} are written out", counted(shape.layers, "layer"),
                       kMostWrittenLayers),
           settings.origin("base_num_decoder_layers").where, "scan_layers=true");
  }
  check_interval(shape, settings);
  if (shape.cycle > kMostWrittenLayers) {
    refuse(fmt::format("a cycle of {}, at most {} are written out", counted(shape.cycle, "layer"), kMostWrittenLayers),
           settings.origin("inhomogeneous_layer_cycle_interval").where);
  }
  const bool may_leave_a_rest = (shape.block == Block::gemma3 || shape.block == Block::gemma4) && settings.texts("layer_attention").empty();
  if (shape.scan && shape.layers % shape.cycle != 0 && !may_leave_a_rest) {
    refuse(fmt::format("cycles of {} (inhomogeneous_layer_cycle_interval) do not divide {}", shape.cycle,
                       counted(shape.layers, "layer")),
           settings.origin("base_num_decoder_layers").where);
  }
}

void check_clip(const ModelShape& shape, const Settings& settings) {
  const std::string& where = settings.origin("use_qk_clip").where;
  if (!shape.attention.latent) {
    refuse("use_qk_clip=true shrinks weights of latent attention, which this model does not have", where, "use_qk_clip=false");
  }
  if (shape.attention.score_cap > 0) {
    refuse(fmt::format("use_qk_clip=true with attn_logits_soft_cap={}: a cap hides how large scores are", shape.attention.score_cap), where,
           "attn_logits_soft_cap=0 or use_qk_clip=false");
  }
  if (has_pipeline(settings)) {
    refuse("use_qk_clip=true does not work over pipeline stages", where,
           "ici_pipeline_parallelism=1 dcn_pipeline_parallelism=1, or use_qk_clip=false");
  }
}

void check_indexer(const ModelShape& shape, const Settings& settings) {
  const AttentionShape& heads = shape.attention;
  const auto where = [&](const char* key) { return settings.origin(key).where; };
  if (!heads.latent || heads.q_lora_rank == 0) {
    refuse("use_indexer=true chooses keys for latent attention with a latent query (q_lora_rank), which this model does not have",
           where("use_indexer"), "use_indexer=false");
  }
  if (heads.index_dim < heads.qk_rope_head_dim) {
    refuse(fmt::format("indexer_head_dim is {}, of which {} are rotated (qk_rope_head_dim)", heads.index_dim, heads.qk_rope_head_dim),
           where("indexer_head_dim"), fmt::format("indexer_head_dim={}", heads.qk_rope_head_dim));
  }
}

void check_attention(const ModelShape& shape, const Settings& settings) {
  const auto not_latent = [&](bool given, std::string_view key) {
    if (!given || !shape.attention.latent) return;
    refuse(fmt::format("{} is no part of attention_type=mla", key), settings.origin(key).where, fmt::format("{}=false", key));
  };
  not_latent(shape.attention.sinks, "attention_sink");
  not_latent(shape.attention.fused, "fused_qkv");
  if (settings.boolean("use_qk_clip")) check_clip(shape, settings);
  if (settings.boolean("use_indexer")) check_indexer(shape, settings);
  const bool may_share = shape.block == Block::gemma4 || shape.block == Block::plain;
  if (may_share && shape.attention.fused && settings.boolean("share_kv_projections")) {
    refuse("share_kv_projections=true leaves no values to be made by fused_qkv", settings.origin("fused_qkv").where, "fused_qkv=false");
  }
}

void check_streams(const ModelShape& shape, const Settings& settings) {
  const auto where = [&](const char* key) { return settings.origin(key).where; };
  if (!is_deepseek(shape.block)) {
    refuse(fmt::format("mhc_expansion_rate={}, but decoder_block={} has one stream", shape.streams.count, settings.text("decoder_block")),
           where("mhc_expansion_rate"), "decoder_block=deepseek or deepseek4 has several, or mhc_expansion_rate=1");
  }
  if (shape.streams.iterations == 0 && shape.streams.count > kMostPermutedStreams) {
    refuse(fmt::format("enable_mhc_lite=true takes a number for each permutation of {}, which are too many",
                       counted(shape.streams.count, "stream")),
           where("enable_mhc_lite"), fmt::format("mhc_expansion_rate up to {}, or enable_mhc_lite=false", kMostPermutedStreams));
  }
  if (shape.prediction_modules > 0) {
    refuse("multi-token prediction is not there for several streams", where("mtp_num_layers"), "mtp_num_layers=0 or mhc_expansion_rate=1");
  }
  if (has_pipeline(settings)) {
    refuse("several streams do not go through pipeline stages", where("mhc_expansion_rate"),
           "ici_pipeline_parallelism=1 dcn_pipeline_parallelism=1, or mhc_expansion_rate=1");
  }
}

// What MaxText's DeepSeek 4 has or does not have.
void check_compressed(const ModelShape& shape, const Settings& settings) {
  const AttentionShape& heads = shape.attention;
  const auto where = [&](const char* key) { return settings.origin(key).where; };
  if (settings.text("attention_type") != "compressed") {
    refuse(fmt::format("attention_type is {}, decoder_block=deepseek4 has compressed attention", settings.text("attention_type")),
           where("attention_type"), "attention_type=compressed");
  }
  const auto needs = [&](const char* key, std::int64_t least) {
    if (settings.integer(key) >= least) return;
    refuse(fmt::format("{} is {}, decoder_block=deepseek4 takes at least {}", key, settings.integer(key), least), where(key));
  };
  for (const char* key : {"q_lora_rank", "o_groups", "o_lora_rank", "sliding_window_size"}) needs(key, 1);
  needs("mhc_expansion_rate", 2);
  if (heads.kv_heads != 1) {
    refuse(fmt::format("base_num_kv_heads is {}: in compressed attention all heads share one key", heads.kv_heads),
           where("base_num_kv_heads"), "base_num_kv_heads=1");
  }
  const std::int64_t turned = heads.qk_rope_head_dim;
  if (turned % 2 != 0 || turned > std::min(heads.head_dim, heads.index_dim)) {
    refuse(fmt::format("qk_rope_head_dim is {}, an even number of the dims of a head was expected (head_dim={}, indexer_head_dim={})",
                       turned, heads.head_dim, heads.index_dim),
           where("qk_rope_head_dim"));
  }
  if (heads.query_heads * heads.head_dim % heads.out_groups != 0) {
    refuse(fmt::format("o_groups={} does not divide the {} dims of all heads", heads.out_groups, heads.query_heads * heads.head_dim),
           where("o_groups"));
  }
  const std::vector<std::int64_t>& pooled = settings.integers("compress_ratios");
  for (const std::int64_t tokens : pooled) {
    if (tokens != 0 && tokens < 4)
      refuse(fmt::format("compress_ratios holds {}, 0 or at least 4 tokens for a key were expected", tokens), where("compress_ratios"));
  }
  if (shape.given_layers > shape.layers) {
    refuse(fmt::format("first_num_hash_layers is {}, of {} in all", shape.given_layers, counted(shape.layers, "layer")),
           where("first_num_hash_layers"));
  }
  if (!shape.scan) return;
  if ((shape.layers - shape.given_layers) % 2 != 0) {
    refuse(fmt::format("{} behind the first {} do not make whole pairs, which scan_layers=true stacks",
                       counted(shape.layers - shape.given_layers, "layer"), shape.given_layers),
           where("base_num_decoder_layers"), "one more or less, or scan_layers=false");
  }
  for (std::int64_t layer = shape.given_layers; layer < shape.layers; ++layer) {
    const std::int64_t stacked = layer % 2 == shape.given_layers % 2 ? 128 : 4;
    if (shape.layer(layer).pooled == stacked) continue;
    refuse(fmt::format("compress_ratios has {} for layer {}: stacked layers take 128 tokens and 4 in turns", shape.layer(layer).pooled,
                       layer),
           where("compress_ratios"), fmt::format("{} there, or scan_layers=false", stacked));
  }
}

// What MaxText's layers of these families do not have either.
void check_delta(const ModelShape& shape, const Settings& settings) {
  const auto where = [&](const char* key) { return settings.origin(key).where; };
  const DeltaShape& heads = shape.delta;
  if (heads.value_heads % heads.key_heads != 0) {
    refuse(fmt::format("{} of values over {} of keys in linear attention, a whole number for each was expected",
                       counted(heads.value_heads, "head"), heads.key_heads),
           where("gdn_num_value_heads"), "choose gdn_num_key_heads so that it divides");
  }
  if (shape.attention.rotary_dim % 2 != 0) {
    refuse(fmt::format("{} of {} dims of a head are rotated, an even number was expected", shape.attention.rotary_dim,
                       shape.attention.head_dim),
           where("partial_rotary_factor"), "choose partial_rotary_factor so that pairs are rotated");
  }
  if (rope_is_interleaved(settings)) {
    refuse(fmt::format("decoder_block={} rotates halves of a head, not neighbours", settings.text("decoder_block")), where("rope_type"),
           "rope_type=default, or rope_interleave=false");
  }
  const auto has_none = [&](const char* key) {
    if (!settings.boolean(key)) return;
    refuse(fmt::format("{}=true is not there for decoder_block={}", key, settings.text("decoder_block")), where(key),
           fmt::format("{}=false", key));
  };
  for (const char* key : {"fused_qkv", "attention_sink", "temperature_tuning"}) has_none(key);
  for (const char* key : {"layer_attention", "layer_positions", "layer_mlp"}) {
    if (settings.texts(key).empty()) continue;
    refuse(fmt::format("{} is not heeded by decoder_block={}", key, settings.text("decoder_block")),
           where(key), fmt::format("{}=[], and inhomogeneous_layer_cycle_interval", key));
  }
}

void check_heads(const ModelShape& shape, const Settings& settings) {
  const AttentionShape& heads = shape.attention;
  if (shape.block == Block::gpt3 && heads.query_heads != heads.kv_heads) {
    refuse(fmt::format("{} query heads over {} of keys and values: decoder_block=gpt3 has as many", heads.query_heads, heads.kv_heads),
           settings.origin("base_num_kv_heads").where, fmt::format("base_num_kv_heads={}", heads.query_heads));
  }
  if (shape.block == Block::qwen3_custom_moe && heads.out_dim != shape.moe.input_dim) {
    refuse(fmt::format("attention_output_dim is {}, moe_expert_input_dim {}: experts take what attention gives", heads.out_dim,
                       shape.moe.input_dim),
           settings.origin("moe_expert_input_dim").where, "give both the same");
  }
}

void check_experts(const ModelShape& shape, const Settings& settings) {
  const MoeShape& moe = shape.moe;
  if (has_experts(shape.block) && moe.experts < 2) {
    refuse(fmt::format("num_experts is {}, decoder_block={} has at least 2", moe.experts,
                       settings.text("decoder_block")),
           settings.origin("num_experts").where, "set num_experts and num_experts_per_tok");
  }
  const bool may_have_experts = has_experts(shape.block) || shape.block == Block::gemma4;
  if (!may_have_experts && moe.experts > 1) {
    refuse(fmt::format("num_experts is {}, but decoder_block={} has no experts", moe.experts,
                       settings.text("decoder_block")),
           settings.origin("num_experts").where,
           "use decoder_block=mixtral, deepseek, deepseek4, qwen2_moe, qwen3_moe, gpt_oss, llama4, gemma4, envy, qwen3_next or qwen3_5");
  }
  if (shape.block == Block::gemma4 && moe.experts > 1 && moe.shared_experts < 1) {
    refuse("shared_experts is 0, decoder_block=gemma4 has an MLP beside its experts", settings.origin("shared_experts").where,
           "shared_experts=1");
  }
  if (shape.is_moe() && moe.experts_per_token > moe.experts) {
    refuse(fmt::format("num_experts_per_tok is {}, of {}", moe.experts_per_token, counted(moe.experts, "expert")),
           settings.origin("num_experts_per_tok").where);
  }
  if (shape.block == Block::gpt_oss && moe.strategy == MoeStrategy::capacity) {
    refuse("gpt_oss drops no tokens, as in MaxText: it has no capacity path", settings.origin("capacity_factor").where,
           "capacity_factor=-1");
  }
  if (const double limit = settings.real("mlp_activations_limit"); shape.block == Block::gpt_oss && limit <= 0) {
    refuse(
        fmt::format("mlp_activations_limit is {}, and gpt_oss clamps what enters its experts' activations to it in any case, as in MaxText",
                    limit),
        settings.origin("mlp_activations_limit").where, "mlp_activations_limit=7.0, as its presets have");
  }
}

// MaxText builds modules of other layers than the model's own for some families, and none for others.
bool may_predict_ahead(Block block) {
  return !is_one_of(block, {Block::gemma, Block::gemma2, Block::gemma3, Block::gemma4, Block::gpt3, Block::llama4, Block::envy,
                            Block::qwen3_custom_moe, Block::qwen3_next, Block::deepseek4});
}

void check_prediction(const ModelShape& shape, const Settings& settings) {
  const std::int64_t examined = settings.integer("mtp_eval_target_module");
  if (examined > shape.prediction_modules) {
    refuse(fmt::format("mtp_eval_target_module={}, of {}", examined, counted(shape.prediction_modules, "module")),
           settings.origin("mtp_eval_target_module").where, "the number of a module, up to mtp_num_layers");
  }
  if (shape.prediction_modules == 0) return;
  const std::string& where = settings.origin("mtp_num_layers").where;
  if (!may_predict_ahead(shape.block)) {
    refuse(fmt::format("multi-token prediction is not there for decoder_block={}", settings.text("decoder_block")), where,
           "mtp_num_layers=0");
  }
  if (!shape.scan && shape.layers_per_module() > 1) {
    refuse("a module of multi-token prediction has a whole cycle of layers, and scan_layers=false has none", where,
           "scan_layers=true, or mtp_num_layers=0");
  }
  if (shape.block == Block::deepseek && shape.dense_layers == shape.layers) {
    refuse("a module of multi-token prediction has a layer like the model's last, and no layer has experts", where,
           "a smaller first_num_dense_layers, or mtp_num_layers=0");
  }
}

}  // namespace

void check_model(const ModelShape& shape, const Settings& settings) {
  check_layers(shape, settings);
  check_attention(shape, settings);
  check_heads(shape, settings);
  if (shape.block == Block::qwen3_next) check_delta(shape, settings);
  if (shape.block == Block::deepseek4) check_compressed(shape, settings);
  if (shape.streams.count > 1) check_streams(shape, settings);
  check_experts(shape, settings);
  check_prediction(shape, settings);
}

}  // namespace moesh::config
