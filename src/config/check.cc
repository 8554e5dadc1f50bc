// Contradictions between keys, each refused with both values and a way out.
#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"
#include "config/block.h"
#include "config/load.h"
#include "config/optimizer.h"
#include "config/pipeline.h"

namespace moesh::config {
namespace {

void check_attention(const Settings& settings) {
  const std::string& type = settings.text("attention_type");
  if (type == "local_sliding" && settings.integer("sliding_window_size") <= 0) {
    refuse("attention_type=local_sliding needs a window, sliding_window_size is 0",
           settings.origin("sliding_window_size").where, "sliding_window_size=4096");
  }
  if (type == "chunk" && settings.integer("chunk_attn_window_size") <= 0) {
    refuse("attention_type=chunk needs a length, chunk_attn_window_size is 0",
           settings.origin("chunk_attn_window_size").where, "chunk_attn_window_size=8192");
  }
  if (type == "compressed" && block_of(settings) != Block::deepseek4) {
    refuse(fmt::format("attention_type=compressed is not supported by moesh for decoder_block={}", settings.text("decoder_block")),
           settings.origin("attention_type").where, "decoder_block=deepseek4, or another attention_type");
  }
  if (block_of(settings) == Block::deepseek && type != "mla" && type != "global") {
    refuse(fmt::format("attention_type={} is no kind of attention of decoder_block=deepseek", type),
           settings.origin("attention_type").where, "attention_type=mla");
  }
}

void check_rope(const Settings& settings) {
  if (settings.text("rope_type") == "yarn" && settings.integer("rope_max_timescale") < 2) {
    refuse("rope_type=yarn measures wavelengths by the logarithm of rope_max_timescale, which is 1",
           settings.origin("rope_max_timescale").where, "rope_max_timescale=10000");
  }
}

// A parameter without a gradient, such as the row of a token that no batch holds, would be moved by 0 / 0.
void check_optimizer(const Settings& settings) {
  const bool divides = optimizer_of(settings) != Optimizer::sgd && settings.real("adam_eps") == 0 && settings.real("adam_eps_root") == 0;
  if (divides) {
    refuse("adam_eps and adam_eps_root are both 0: a parameter without a gradient would become 0 / 0", settings.origin("adam_eps").where,
           "adam_eps=1e-8");
  }
}

// Without dense layers one width serves both, so two different ones are a mistake.
void check_widths(const Settings& settings) {
  const std::int64_t dense = settings.integer("base_mlp_dim");
  const std::int64_t moe = settings.integer("base_moe_mlp_dim");
  const bool every_layer_is_moe = settings.integer("num_experts") > 1 &&
                                  settings.integer("first_num_dense_layers") == 0 &&
                                  settings.integer("inhomogeneous_layer_cycle_interval") == 1;
  const Block block = block_of(settings);
  const bool may_interleave = may_mix_mlps(block) || block == Block::qwen3_custom_moe || block == Block::gemma4;
  if (!every_layer_is_moe || moe <= 0 || moe == dense || may_interleave) return;
  refuse(fmt::format("base_mlp_dim={} and base_moe_mlp_dim={} differ, but every layer has experts", dense, moe),
         settings.origin("base_moe_mlp_dim").where, fmt::format("base_mlp_dim={}", moe));
}

void check_routing(const Settings& settings) {
  const std::int64_t groups = settings.integer("n_routing_groups");
  if (groups > 0 && settings.integer("num_experts") % groups != 0) {
    refuse(fmt::format("n_routing_groups={} does not divide {}", groups, counted(settings.integer("num_experts"), "expert")),
           settings.origin("n_routing_groups").where);
  }
  if (groups > 0 && settings.integer("topk_routing_group") > groups) {
    refuse(fmt::format("topk_routing_group={} of n_routing_groups={}", settings.integer("topk_routing_group"), groups),
           settings.origin("topk_routing_group").where);
  }
  const bool has_bias = settings.integer("num_experts") > 1 && settings.boolean("routed_bias");
  const bool updates_bias = has_bias && settings.real("routed_bias_update_rate") > 0;
  if (updates_bias && !is_deepseek(block_of(settings))) {
    refuse("routed_bias_update_rate balances the load of decoder_block=deepseek and deepseek4 only",
           settings.origin("routed_bias_update_rate").where, "routed_bias_update_rate=0");
  }
  const bool has_bound = settings.integer("num_experts") > 1 && settings.real("ragged_buffer_factor") > 0;
  if (has_bound && settings.boolean("use_ring_of_experts") && !settings.boolean("use_ragged_sort")) {
    refuse(fmt::format("ragged_buffer_factor={} bounds the rows of a ring of experts only with use_ragged_sort=true",
                       settings.real("ragged_buffer_factor")),
           settings.origin("ragged_buffer_factor").where, "use_ragged_sort=true, or ragged_buffer_factor=-1");
  }
  const std::int64_t chunks = settings.integer("num_moe_token_chunks");
  if (chunks > 1 && settings.integer("max_target_length") % chunks != 0) {
    refuse(fmt::format("num_moe_token_chunks={} does not divide max_target_length={}", chunks,
                       settings.integer("max_target_length")),
           settings.origin("num_moe_token_chunks").where);
  }
}

void check_batch_split(const Settings& settings) {
  if (!settings.boolean("use_batch_split_schedule") || settings.integer("num_experts") <= 1) return;
  const std::string& where = settings.origin("use_batch_split_schedule").where;
  const auto refuse_beside = [&](const char* what, const char* fix) {
    refuse(fmt::format("use_batch_split_schedule=true with {}", what), where, fmt::format("{}, or use_batch_split_schedule=false", fix));
  };
  if (!settings.boolean("sparse_matmul")) refuse_beside("sparse_matmul=false, whose rows no part can wait for", "sparse_matmul=true");
  if (has_pipeline(settings))
    refuse_beside("pipeline stages, which split the batch too", "ici_pipeline_parallelism=1 dcn_pipeline_parallelism=1");
  if (block_of(settings) == Block::gemma4 && settings.boolean("scan_layers"))
    refuse_beside("stacks within stacks of layers, which parts would go through one after the other", "scan_layers=false");
  if (settings.boolean("use_qk_clip"))
    refuse_beside("use_qk_clip=true, which needs the highest scores of the whole batch", "use_qk_clip=false");
}

void check_stack_axis(const Settings& settings) {
  if (settings.integer("param_scan_axis") == 1 || optimizer_of(settings) != Optimizer::muon) return;
  refuse("param_scan_axis=0 with opt_type=muon: MaxText takes the layers of a stacked weight for dims of its matrix",
         settings.origin("param_scan_axis").where, "param_scan_axis=1");
}

void check_schedule(const Settings& settings) {
  if (settings.integer("learning_rate_schedule_steps") == 0) {
    refuse("learning_rate_schedule_steps=0: the learning rate would be 0 in every step",
           settings.origin("learning_rate_schedule_steps").where, "learning_rate_schedule_steps=-1 for as many as steps");
  }
  const double warmup = settings.real("warmup_steps_fraction");
  const double decay = settings.real("wsd_decay_steps_fraction");
  if (settings.text("lr_schedule_type") == "wsd" && warmup + decay > 1) {
    refuse(fmt::format("warmup_steps_fraction={} and wsd_decay_steps_fraction={} make more than the whole schedule",
                       warmup, decay),
           settings.origin("wsd_decay_steps_fraction").where, "let them sum to at most 1");
  }
}

// An evaluation of no batch would report a loss of 0.
void check_evaluation(const Settings& settings) {
  if (settings.integer("eval_interval") <= 0 || settings.integer("eval_steps") != 0) return;
  refuse(fmt::format("eval_interval={} asks for evaluations, and eval_steps=0 gives them no batch", settings.integer("eval_interval")),
         settings.origin("eval_steps").where, "eval_steps=-1 for the validation set once, or a number of batches");
}

// The folder is looked for checkpoints, which are named by numbers.
void check_folder_aside(const Settings& settings) {
  constexpr const char* kKey = "checkpoint_todelete_subdir";
  if (settings.is_null(kKey)) return;
  const std::string& name = settings.text(kKey);
  const std::vector<std::string> parts = split(name, '/');
  const auto leads_away = [](const std::string& part) { return part.empty() || part == "." || part == ".."; };
  const bool is_step = !name.empty() && std::isdigit(static_cast<unsigned char>(name.front())) != 0;
  if (!name.empty() && !is_step && std::none_of(parts.begin(), parts.end(), leads_away)) return;
  refuse(fmt::format("{} is '{}', the name of a folder beside the checkpoints was expected, which begins with no digit", kKey,
                     shorten(name, 80)),
         settings.origin(kKey).where, fmt::format("{}=.todelete, or null to remove old checkpoints", kKey));
}

}  // namespace

std::string diluted_losses(const Settings& settings) {
  const std::int64_t microbatches = settings.integer("gradient_accumulation_steps");
  std::vector<std::string> weights;
  const auto add_weight = [&](bool has_loss, const char* weight) {
    if (has_loss && settings.real(weight) > 0) weights.emplace_back(weight);
  };
  add_weight(settings.integer("num_experts") > 1, "load_balance_loss_weight");
  add_weight(settings.integer("mtp_num_layers") > 0, "mtp_loss_scaling_factor");
  add_weight(settings.boolean("use_indexer"), "indexer_loss_scaling_factor");
  if (microbatches == 1 || weights.empty()) return "";
  return fmt::format("{} hardly trains with gradient_accumulation_steps={}: as in MaxText, its share of the gradient is divided by the "
                     "number of tokens in the batch",
                     join(weights, " and "), microbatches);
}

std::string idle_indexer(const Settings& settings) {
  const std::int64_t chosen = settings.integer("indexer_topk"), length = settings.integer("max_target_length");
  if (!settings.boolean("use_indexer") || chosen < length) return "";
  return fmt::format("the indexer leaves nothing out: indexer_topk={} of rows of {} (max_target_length)", chosen, counted(length, "token"));
}

void check_training(const Settings& settings) {
  if (settings.real("indexer_loss_scaling_factor") <= 0 || idle_indexer(settings).empty()) return;
  refuse(fmt::format("indexer_topk is {}, of rows of {}: the indexer chooses nothing, and has no loss to learn from",
                     settings.integer("indexer_topk"), counted(settings.integer("max_target_length"), "token")),
         settings.origin("indexer_topk").where, "a smaller indexer_topk, or indexer_loss_scaling_factor=0");
}

void check_settings(const Settings& settings) {
  check_attention(settings);
  check_rope(settings);
  check_optimizer(settings);
  check_widths(settings);
  check_routing(settings);
  check_batch_split(settings);
  check_stack_axis(settings);
  check_schedule(settings);
  check_evaluation(settings);
  check_folder_aside(settings);
}

}  // namespace moesh::config
