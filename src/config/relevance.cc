#include "config/relevance.h"

#include <algorithm>
#include <initializer_list>

#include <fmt/core.h>

#include "base/text.h"
#include "config/attention_parts.h"
#include "config/data_kind.h"
#include "config/model_shape.h"
#include "config/optimizer.h"
#include "config/pipeline.h"

namespace moesh::config {
namespace {

using S = const Settings&;

bool is_block(S s, Block block) { return block_of(s) == block; }
bool is_one_of(S s, std::initializer_list<Block> blocks) { return is_one_of(block_of(s), blocks); }
bool lists(S s, std::string_view key, std::string_view word) {
  const std::vector<std::string>& words = s.texts(key);
  return std::find(words.begin(), words.end(), word) != words.end();
}
bool has_experts(S s) { return s.integer("num_experts") > 1; }
bool is_sparse(S s) { return strategy_of(s) == MoeStrategy::sparse; }
bool has_slots(S s) { return strategy_of(s) == MoeStrategy::capacity; }
bool weights_dense_results(S s) { return strategy_of(s) == MoeStrategy::dense && model_shape(s).moe.weights_results(); }
bool is_deepseek4(S s) { return is_block(s, Block::deepseek4); }
bool is_any_deepseek(S s) { return is_deepseek(block_of(s)); }
bool is_stretched_latent(S s) { return has_latent_attention(s) && stretches_positions(s); }
bool is_optimizer(S s, Optimizer optimizer) { return optimizer_of(s) == optimizer; }
bool is_data(S s, std::string_view type) { return s.text("dataset_type") == type; }

bool has_streams(S s) { return s.integer("mhc_expansion_rate") > 1; }

// Families whose layers alternate between a dense MLP and experts.
bool interleaves(S s) { return is_one_of(s, {Block::llama4, Block::envy}) && s.texts("layer_mlp").empty(); }
bool may_mix_mlps(S s) { return may_mix_mlps(block_of(s)); }
bool has_dense_mlp(S s) {
  if (!has_experts(s)) return true;
  if (interleaves(s)) return s.integer("interleave_moe_layer_step") > 1;
  if (may_mix_mlps(s)) return lists(s, "layer_mlp", "dense");
  return is_block(s, Block::deepseek) && s.integer("first_num_dense_layers") > 0;
}
}  // namespace

bool has_cycles(S s) {
  const bool has_lists = !s.texts("layer_attention").empty() || !s.texts("layer_mlp").empty() || !s.texts("layer_positions").empty();
  return has_lists || is_one_of(s, {Block::gpt_oss, Block::olmo3, Block::llama4, Block::envy, Block::qwen3_next});
}

namespace {

bool has_windows(S s) {
  if (!s.texts("layer_attention").empty()) return lists(s, "layer_attention", "sliding");
  return is_one_of(s, {Block::gpt_oss, Block::olmo3, Block::gemma2, Block::gemma3, Block::gemma4, Block::deepseek4});
}
bool has_rotated_windows(S s) {
  return has_windows(s) && !is_one_of(s, {Block::deepseek4, Block::gemma4}) && s.integer("sliding_window_size") > 0;
}
// Whether a Gemma 4 has layers with full attention, which have settings of their own.
bool has_full_layers(S s) {
  return is_block(s, Block::gemma4) && (s.texts("layer_attention").empty() || lists(s, "layer_attention", "full"));
}
bool has_local_layers(S s) {
  const std::vector<std::string>& words = s.texts("layer_attention");
  const auto is_local = [](const std::string& word) { return word != "full"; };
  return is_block(s, Block::gemma4) && (words.empty() || std::any_of(words.begin(), words.end(), is_local));
}
bool may_turn_plainly(S s) {
  const bool scales = s.real("rope_linear_scaling_factor") != 1 && !known_name(s).starts_with("gemma3");
  return has_rotated_windows(s) && (!turns_plainly(s) || scales || s.integer("rope_min_timescale") != 1);
}
bool has_chunks(S s) { return s.texts("layer_attention").empty() ? is_block(s, Block::llama4) : lists(s, "layer_attention", "chunked"); }
bool has_own_positions(S s) { return is_block(s, Block::llama4) && s.texts("layer_positions").empty(); }
bool has_still_layers(S s) {
  if (!has_own_positions(s)) return lists(s, "layer_positions", "none");
  const std::int64_t interval = s.integer("nope_layer_interval");
  const char* layers = s.boolean("scan_layers") ? "inhomogeneous_layer_cycle_interval" : "base_num_decoder_layers";
  return interval > 0 && interval <= s.integer(layers);
}
bool may_have_out_bias(S s) { return s.boolean("attention_bias") && takes_attention_bias(s) && !is_block(s, Block::qwen2); }
bool may_share_experts(S s) {
  if (has_delta_layers(s) || (is_block(s, Block::gemma4) && !has_experts(s))) return false;  // Qwen3-Next has one, whatever the key says
  return may_share_experts(block_of(s));
}
bool has_one_projection(S s) { return s.boolean("fused_mlp") || s.texts("mlp_activations").size() == 1; }
bool has_shared_experts(S s) { return has_delta_layers(s) || (may_share_experts(s) && s.integer("shared_experts") > 0); }

// Whether the backward pass reads the MLP's result. Otherwise only its sum with the MLP's input is read, as the input of the next layer,
// and that is saved.
bool reads_mlp_results(S s) { return has_experts(s) || has_cycles(s) || is_one_of(s, {Block::gemma2, Block::gemma3, Block::gemma4}); }

// Likewise for the result of attention, unless the MLP runs beside attention rather than after it.
bool reads_out_proj(S s) { return !is_block(s, Block::plain); }

bool has_named_remat(S s) { return s.text("remat_policy") == "custom"; }

// Whether base_mlp_dim matters. If every layer has experts both widths have to be equal, so giving both is not a mistake.
bool has_dense_width(S s) {
  const bool may_differ = may_mix_mlps(s) || is_block(s, Block::qwen3_custom_moe);
  if (is_block(s, Block::gemma4) && s.integer("shared_expert_mlp_dim") <= 0) return true;
  const bool must_be_equal = s.integer("inhomogeneous_layer_cycle_interval") == 1 && !may_differ;
  return has_dense_mlp(s) || is_one_of(s, {Block::gpt_oss, Block::mixtral}) || s.integer("base_moe_mlp_dim") <= 0 || must_be_equal;
}
// Whether base_moe_mlp_dim matters: Mixtral's experts have base_mlp_dim, but both have to be equal unless other keys speak of dense layers.
bool has_own_width(S s) {
  if (!is_block(s, Block::mixtral)) return !is_block(s, Block::gpt_oss);
  return s.integer("inhomogeneous_layer_cycle_interval") == 1 && s.integer("first_num_dense_layers") == 0;
}

constexpr std::string_view kOfDeepseek[] = {"first_num_dense_layers"};
constexpr std::string_view kOfDeepseeks[] = {"routed_scaling_factor", "routed_bias_update_rate", "routing_group_score"};
constexpr std::string_view kOfDeepseek4[] = {"first_num_hash_layers", "o_lora_rank", "o_groups", "compress_ratios",
                                             "compressed_rope_max_timescale"};
constexpr std::string_view kOfSharing[] = {"shared_experts"};
constexpr std::string_view kOfShared[] = {"shared_expert_mlp_dim"};
constexpr std::string_view kOfWindowedLayers[] = {"local_rope_type"};
constexpr std::string_view kOfPlainWindows[] = {"local_rope_max_timescale"};
constexpr std::string_view kOfGemma4[] = {"v_norm_with_scale"};
constexpr std::string_view kOfScaledNorms[] = {"qk_norm_with_scale"};
constexpr std::string_view kOfFullLayers[] = {"global_head_dim", "global_num_kv_heads", "global_rope_max_timescale",
                                              "global_rope_proportion"};
constexpr std::string_view kOfSharedValues[] = {"share_kv_projections"};
constexpr std::string_view kOfLocalLayers[] = {"local_rope_proportion"};
constexpr std::string_view kOfPartsThatTurn[] = {"global_rope_proportion", "local_rope_proportion"};
constexpr std::string_view kOfOneProportion[] = {"partial_rotary_factor"};
constexpr std::string_view kOfOtherBlocks[] = {"layer_attention", "layer_positions"};
constexpr std::string_view kOfMixedMlps[] = {"layer_mlp"};
constexpr std::string_view kOfWindows[] = {"sliding_window_size"};
constexpr std::string_view kOfCycles[] = {"inhomogeneous_layer_cycle_interval"};
constexpr std::string_view kOfBiases[] = {"attention_out_bias"};
constexpr std::string_view kOfChosenBiases[] = {"attention_bias"};
constexpr std::string_view kOfSinks[] = {"attention_sink"};
constexpr std::string_view kOfIgnoredParts[] = {"bias_and_norm_anywhere"};
constexpr std::string_view kOfChosenScales[] = {"norm_scales_above_one"};
constexpr std::string_view kOfChunks[] = {"chunk_attn_window_size"};
constexpr std::string_view kOfOwnPositions[] = {"nope_layer_interval"};
constexpr std::string_view kOfStillLayers[] = {"temperature_tuning", "temperature_tuning_scale", "temperature_tuning_floor"};
constexpr std::string_view kOfTempers[] = {"temperature_tuning_scale", "temperature_tuning_floor"};
constexpr std::string_view kOfInterleaving[] = {"interleave_moe_layer_step"};
constexpr std::string_view kOfNormsBehindAttention[] = {"use_post_attn_norm"};
constexpr std::string_view kOfNormsBehindMlps[] = {"use_post_ffw_norm"};
constexpr std::string_view kOfCustomQwen[] = {"attention_output_dim", "moe_expert_input_dim"};
constexpr std::string_view kOfChosenNorms[] = {"use_qk_norm"};
constexpr std::string_view kOfGemmas[] = {"layer_norm_epsilon"};
constexpr std::string_view kOfCaps[] = {"attn_logits_soft_cap"};
constexpr std::string_view kOfRotation[] = {"rope_type", "rope_min_timescale", "rope_max_timescale", "rope_linear_scaling_factor",
                                            "partial_rotary_factor", "rope_factor", "beta_fast", "beta_slow", "rope_interleave",
                                            "rope_truncate", "original_max_position_embeddings", "rope_attention_scaling",
                                            "rope_attention_factor", "rope_use_scale", "llama3_rope_factor", "llama3_low_freq_factor",
                                            "llama3_high_freq_factor", "llama3_original_positions"};
constexpr std::string_view kOfFusedHeads[] = {"qkv_proj"};
constexpr std::string_view kOfOneProjection[] = {"mlpwi"};
constexpr std::string_view kOfGatedMlp[] = {"mlpwi_0", "mlpwi_1"};
constexpr std::string_view kOfStretchedLow[] = {"llama3_rope_factor", "llama3_low_freq_factor", "llama3_high_freq_factor",
                                                "llama3_original_positions"};
constexpr std::string_view kOfDeepseek3[] = {"n_routing_groups", "topk_routing_group"};
constexpr std::string_view kOfGroups[] = {"topk_routing_group"};
constexpr std::string_view kOfClampedExperts[] = {"mlp_activations_limit"};
constexpr std::string_view kOfOwnNormalization[] = {"norm_topk_prob"};
constexpr std::string_view kOfOwnWidth[] = {"base_moe_mlp_dim"};
constexpr std::string_view kOfModules[] = {"mtp_loss_scaling_factor"};
constexpr std::string_view kOfExperts[] = {"num_experts_per_tok",
                                           "mlp_bias",
                                           "shard_exp_on_fsdp",
                                           "fsdp_shard_on_exp",
                                           "use_2d_fsdp_sharding",
                                           "base_moe_mlp_dim",
                                           "dense_init_scale",
                                           "routed_score_func",
                                           "routed_bias",
                                           "routed_weights",
                                           "routing_group_score",
                                           "norm_topk_prob",
                                           "use_random_routing",
                                           "router_skew",
                                           "load_balance_loss_weight",
                                           "float32_weight_sum",
                                           "float32_gate_logits",
                                           "sparse_matmul",
                                           "capacity_factor",
                                           "use_ring_of_experts",
                                           "ragged_buffer_factor",
                                           "num_moe_token_chunks",
                                           "moe_chunk_barrier",
                                           "num_moe_emb_chunks",
                                           "use_batch_split_schedule",
                                           "moe_dispatch_no_expert_sharding",
                                           "use_ragged_sort",
                                           "moe_mlpwi_0",
                                           "moe_mlpwi_1",
                                           "moe_mlpwo"};
constexpr std::string_view kOfRoutedBias[] = {"routed_bias_update_rate"};
constexpr std::string_view kOfSparse[] = {"use_ring_of_experts", "ragged_buffer_factor", "num_moe_token_chunks",
                                          "moe_chunk_barrier",   "num_moe_emb_chunks", "use_ragged_sort"};
constexpr std::string_view kOfTokenChunks[] = {"moe_chunk_barrier"};
constexpr std::string_view kOfBatchParts[] = {"batch_split_factor"};
constexpr std::string_view kOfBoundedRings[] = {"use_ragged_sort"};
constexpr std::string_view kOfDenseExperts[] = {"capacity_factor"};
constexpr std::string_view kOfSlots[] = {"moe_dispatch_no_expert_sharding"};
constexpr std::string_view kOfWideDropless[] = {"float32_weight_sum"};
constexpr std::string_view kOfPlainProducts[] = {"activations_in_float32", "mlpwi_1"};
constexpr std::string_view kOfDenseWidth[] = {"base_mlp_dim"};
constexpr std::string_view kOfDenseMlp[] = {"fused_mlp", "mlpwi"};
constexpr std::string_view kOfReadResults[] = {"mlpwo"};
constexpr std::string_view kOfReadAttention[] = {"out_proj"};
constexpr std::string_view kOfNamedRemat[] = {"decoder_layer_input"};

constexpr std::string_view kOfKnownAttention[] = {"attention_type"};
constexpr std::string_view kOfLatent[] = {"kv_lora_rank", "qk_nope_head_dim", "v_head_dim", "mla_norm_epsilon", "query_wa_proj",
                                          "kv_wa_proj",   "mla_q",            "mla_kv",     "max_position_embeddings"};
constexpr std::string_view kOfLatentQueries[] = {"q_lora_rank", "qk_rope_head_dim"};
constexpr std::string_view kOfLatentQuery[] = {"query_wa_proj"};
constexpr std::string_view kOfIndexer[] = {"indexer_mask_exact_topk", "indexer_loss_scaling_factor", "indexer_cutoff_threshold"};
constexpr std::string_view kOfIndexers[] = {"indexer_n_heads", "indexer_head_dim", "indexer_topk"};
constexpr std::string_view kOfIndexLoss[] = {"indexer_sparse_training"};
constexpr std::string_view kOfHeads[] = {"head_dim", "base_num_kv_heads", "partial_rotary_factor"};
constexpr std::string_view kOfDelta[] = {"gdn_num_key_heads",  "gdn_num_value_heads", "gdn_key_head_dim",
                                         "gdn_value_head_dim", "gdn_conv_kernel_dim", "use_qk_norm_in_gdn"};
constexpr std::string_view kOfStreams[] = {"enable_mhc_lite"};
constexpr std::string_view kOfSinkhorn[] = {"sinkhorn_iterations"};
constexpr std::string_view kOfStretchedLatent[] = {"mscale"};
constexpr std::string_view kOfStretching[] = {"rope_factor"};
constexpr std::string_view kOfOldLength[] = {"original_max_position_embeddings"};
constexpr std::string_view kOfYarn[] = {
    "beta_fast", "beta_slow", "rope_interleave", "rope_truncate", "rope_attention_scaling", "rope_attention_factor"};
constexpr std::string_view kOfLlama3[] = {"rope_use_scale", "llama3_rope_factor", "llama3_low_freq_factor", "llama3_high_freq_factor",
                                          "llama3_original_positions"};
constexpr std::string_view kOfPlainRope[] = {"rope_linear_scaling_factor"};
constexpr std::string_view kOfOtherThanYarn[] = {"rope_min_timescale"};
constexpr std::string_view kOfTied[] = {"normalize_embedding_logits", "round_tied_embedding", "final_logits_soft_cap"};
constexpr std::string_view kOfUntied[] = {"untied_logits_soft_cap"};

constexpr std::string_view kOfClips[] = {"qk_clip_threshold"};
constexpr std::string_view kOfSpikes[] = {"skip_step_interval", "skip_step_scaling_factor"};
constexpr std::string_view kOfWsd[] = {"wsd_decay_steps_fraction", "wsd_decay_style"};
constexpr std::string_view kOfPasses[] = {"reduce_gradients"};
constexpr std::string_view kOfMuon[] = {"muon_beta", "muon_weight_decay", "muon_consistent_rms"};
constexpr std::string_view kOfMoments[] = {"adam_b1", "adam_b2", "adam_eps", "adam_eps_root", "adam_weight_decay",
                                           "shard_optimizer_over_data"};
constexpr std::string_view kOfAdam[] = {"adamw_mask"};
constexpr std::string_view kOfChosenMoments[] = {"mu_dtype"};
constexpr std::string_view kOfStopping[] = {"abort_on_nan_loss", "abort_on_inf_loss"};

constexpr std::string_view kOfStages[] = {"num_layers_per_pipeline_stage", "num_pipeline_repeats",
                                          "pipeline_parallel_layers",      "num_pipeline_microbatches",
                                          "scan_layers_per_stage",         "pipeline_delay_activation_forwarding"};
constexpr std::string_view kOfThisMachine[] = {"num_slices"};
constexpr std::string_view kOfChips[] = {"matmul_precision"};

constexpr std::string_view kOfFiles[] = {"dataset_path", "enable_data_shuffling", "data_shuffle_seed",
                                         "reuse_example_batch", "eval_dataset_path", "eval_fraction"};
constexpr std::string_view kOfEvaluation[] = {"eval_dataset_path", "eval_steps", "eval_start_step", "eval_per_device_batch_size",
                                              "target_eval_loss"};
constexpr std::string_view kOfOwnValidation[] = {"eval_data_columns", "tokenize_eval_data"};
constexpr std::string_view kOfShuffling[] = {"data_shuffle_seed"};
constexpr std::string_view kOfSegments[] = {"packing"};
constexpr std::string_view kOfSynthetic[] = {"max_segments_per_seq"};
constexpr std::string_view kOfTexts[] = {"tokenizer_path", "tokenize_train_data", "tokenize_eval_data"};
constexpr std::string_view kOfTokenizers[] = {"tokenizer_type", "add_bos"};
constexpr std::string_view kOfEnds[] = {"add_eos"};
constexpr std::string_view kOfLines[] = {"train_data_columns", "eval_data_columns"};
constexpr std::string_view kOfDocuments[] = {"use_truncation"};
constexpr std::string_view kOfUnpacked[] = {"use_truncation"};

constexpr std::string_view kOfCheckpoints[] = {"checkpoint_period", "save_checkpoint_on_start", "save_checkpoint_on_completion",
                                               "async_checkpointing", "max_num_checkpoints_to_keep", "checkpoint_todelete_subdir"};
constexpr std::string_view kOfOldCheckpoints[] = {"checkpoint_todelete_subdir"};

constexpr std::string_view kOfDraws[] = {"decode_sampling_temperature", "decode_sampling_min_p", "decode_sampling_seed"};
constexpr std::string_view kOfTopK[] = {"decode_sampling_top_k"};
constexpr std::string_view kOfNucleus[] = {"decode_sampling_nucleus_p"};

bool samples(S s, std::initializer_list<std::string_view> strategies) {
  return std::find(strategies.begin(), strategies.end(), s.text("decode_sampling_strategy")) != strategies.end();
}

constexpr Need kNeeds[] = {
    {"decoder_block=deepseek", [](S s) { return is_block(s, Block::deepseek); }, kOfDeepseek},
    {"decoder_block=deepseek or deepseek4", is_any_deepseek, kOfDeepseeks},
    {"decoder_block=deepseek4", is_deepseek4, kOfDeepseek4},
    {"another decoder_block than deepseek, deepseek4, gpt3, qwen3_next or qwen3_5",
     [](S s) {
       return !is_any_deepseek(s) && !is_block(s, Block::gpt3) && !has_delta_layers(s);
     },
     kOfOtherBlocks},
    {"decoder_block=deepseek, deepseek4, qwen2_moe or llama4, or gemma4 with experts", may_share_experts, kOfSharing},
    {"shared_experts", has_shared_experts, kOfShared},
    {"layers with a window whose frequencies are stretched or limited", may_turn_plainly, kOfWindowedLayers},
    {"layers with a window, rope_type=default or local_rope_type=default",
     [](S s) {
       return (has_rotated_windows(s) && (turns_plainly(s) || s.text("local_rope_type") == "default")) || has_local_layers(s);
     },
     kOfPlainWindows},
    {"decoder_block=gemma4", [](S s) { return is_block(s, Block::gemma4); }, kOfGemma4},
    {"decoder_block=gemma3 or gemma4, or use_qk_norm where it has a scale",
     [](S s) {
       if (is_one_of(s, {Block::gemma3, Block::gemma4})) return true;
       return s.boolean("use_qk_norm") && takes_head_norms(s) && !is_one_of(s, {Block::llama4, Block::qwen3_next});
     },
     kOfScaledNorms},
    {"layers of decoder_block=gemma4 that see all before them", has_full_layers, kOfFullLayers},
    {"decoder_block=default, or layers of decoder_block=gemma4 that see all before them",
     [](S s) { return is_block(s, Block::plain) || has_full_layers(s); }, kOfSharedValues},
    {"layers of decoder_block=gemma4 that have a window", has_local_layers, kOfLocalLayers},
    {"rope_type=default", turns_plainly, kOfPartsThatTurn},
    {"another decoder_block than gemma4", [](S s) { return !is_block(s, Block::gemma4); }, kOfOneProportion},
    {"decoder_block=qwen2_moe, qwen3_moe, llama4 or envy", may_mix_mlps, kOfMixedMlps},
    {"decoder_block=gpt_oss, olmo3, gemma2, gemma3, gemma4 or deepseek4, or layer_attention", has_windows, kOfWindows},
    {"decoder_block=gpt_oss, olmo3, llama4, envy, qwen3_next or qwen3_5, or a list of layers", has_cycles, kOfCycles},
    {"attention_bias=true of another decoder_block than gpt3 or qwen2", may_have_out_bias, kOfBiases},
    {"decoder_block=gpt_oss, olmo3, qwen2 or qwen2_moe, as in MaxText", takes_attention_bias, kOfChosenBiases},
    {"another decoder_block than gpt3", [](S s) { return !is_block(s, Block::gpt3); }, kOfSinks},
    {"attention_bias=true or use_qk_norm=true, where MaxText ignores it", asks_for_parts_anywhere, kOfIgnoredParts},
    {"another decoder_block than gpt3, qwen3_next or qwen3_5",
     [](S s) { return !is_block(s, Block::gpt3) && !has_delta_layers(s); }, kOfChosenScales},
    {"another decoder_block than gpt3", [](S s) { return !is_block(s, Block::gpt3); }, kOfRotation},
    {"decoder_block=llama4 or layer_attention", has_chunks, kOfChunks},
    {"decoder_block=llama4 without layer_positions", has_own_positions, kOfOwnPositions},
    {"layers without rotary positions", has_still_layers, kOfStillLayers},
    {"temperature_tuning=true", [](S s) { return s.boolean("temperature_tuning"); }, kOfTempers},
    {"decoder_block=llama4 or envy without layer_mlp", interleaves, kOfInterleaving},
    {"decoder_block=gemma2, gemma3 or gemma4",
     [](S s) {
       return is_one_of(s, {Block::gemma2, Block::gemma3, Block::gemma4});
     },
     kOfNormsBehindAttention},
    {"decoder_block=gemma2, gemma3, gemma4 or envy",
     [](S s) {
       return is_one_of(s, {Block::gemma2, Block::gemma3, Block::gemma4, Block::envy});
     },
     kOfNormsBehindMlps},
    {"decoder_block=qwen3_custom_moe", [](S s) { return is_block(s, Block::qwen3_custom_moe); }, kOfCustomQwen},
    // In families without such norms it may still say how large query kernels are at first.
    {"decoder_block=envy, llama4, olmo3, qwen2, qwen2_moe, qwen3, qwen3_moe or qwen3_custom_moe, as in MaxText",
     [](S s) { return takes_head_norms(s) || sizes_queries_by_norm(s); }, kOfChosenNorms},
    {"decoder_block=gemma, gemma2, gemma3 or gemma4", is_gemma, kOfGemmas},
    {"decoder_block=llama2, deepseek, gemma2, gemma3 or gemma4", caps_scores, kOfCaps},
    {"fused_qkv=true", [](S s) { return s.boolean("fused_qkv"); }, kOfFusedHeads},
    {"fused_mlp=true, or mlp_activations of one function", has_one_projection, kOfOneProjection},
    {"mlp_activations of several functions without fused_mlp", [](S s) { return !has_one_projection(s); }, kOfGatedMlp},
    {"models named deepseek3..., decoder_block=deepseek4, or routing_group_score",
     [](S s) { return has_experts(s) && routes_by_groups(s); }, kOfDeepseek3},
    {"n_routing_groups", [](S s) { return s.integer("n_routing_groups") > 0; }, kOfGroups},
    {"decoder_block=gpt_oss, or deepseek or deepseek4 with experts", clamps_experts, kOfClampedExperts},
    {"num_experts above 1", has_experts, kOfExperts},
    {"another decoder_block than deepseek or deepseek4", [](S s) { return !is_any_deepseek(s); }, kOfOwnNormalization},
    {"routed_weights empty", [](S s) { return s.text("routed_weights").empty(); }, kOfOwnNormalization},
    {"routed_bias=true", [](S s) { return s.boolean("routed_bias"); }, kOfRoutedBias},
    {"sparse_matmul=true", is_sparse, kOfSparse},
    {"num_moe_token_chunks above 1", [](S s) { return s.integer("num_moe_token_chunks") > 1; }, kOfTokenChunks},
    {"use_batch_split_schedule=true and num_experts above 1",
     [](S s) { return s.boolean("use_batch_split_schedule") && has_experts(s); }, kOfBatchParts},
    {"use_ring_of_experts=true and ragged_buffer_factor",
     [](S s) { return s.boolean("use_ring_of_experts") && s.real("ragged_buffer_factor") > 0; }, kOfBoundedRings},
    {"sparse_matmul=false", [](S s) { return !is_sparse(s); }, kOfDenseExperts},
    {"sparse_matmul=false and capacity_factor", has_slots, kOfSlots},
    {"sparse_matmul=false without capacity_factor, and experts wider than their input", weights_dense_results, kOfWideDropless},
    {"a dense MLP or shared experts without fused_mlp, or sparse_matmul=false",
     [](S s) { return (!s.boolean("fused_mlp") && (has_dense_mlp(s) || has_shared_experts(s))) || !is_sparse(s); }, kOfPlainProducts},
    {"a dense MLP, decoder_block=gpt_oss or mixtral, or without base_moe_mlp_dim", has_dense_width, kOfDenseWidth},
    {"another decoder_block than gpt_oss or mixtral, whose experts have base_mlp_dim", has_own_width, kOfOwnWidth},
    {"mtp_num_layers", [](S s) { return s.integer("mtp_num_layers") > 0; }, kOfModules},
    {"a dense MLP or shared experts", [](S s) { return has_dense_mlp(s) || has_shared_experts(s); }, kOfDenseMlp},
    {"experts, a norm behind the MLP, or layers of several kinds", reads_mlp_results, kOfReadResults},
    {"an MLP behind attention, which decoder_block=default has beside it", reads_out_proj, kOfReadAttention},

    {"global, mla of decoder_block=deepseek, or compressed",
     [](S s) { return s.text("attention_type") == "global" || has_latent_attention(s) || is_deepseek4(s); },
     kOfKnownAttention},
    {"attention_type=mla of decoder_block=deepseek", has_latent_attention, kOfLatent},
    {"attention_type=mla of decoder_block=deepseek, or compressed", [](S s) { return has_latent_attention(s) || is_deepseek4(s); },
     kOfLatentQueries},
    {"attention_type=mla and max_position_embeddings above original_max_position_embeddings", is_stretched_latent, kOfStretchedLatent},
    {"q_lora_rank", [](S s) { return s.integer("q_lora_rank") > 0; }, kOfLatentQuery},
    {"use_indexer=true", [](S s) { return s.boolean("use_indexer"); }, kOfIndexer},
    {"use_indexer=true or decoder_block=deepseek4", [](S s) { return s.boolean("use_indexer") || is_deepseek4(s); }, kOfIndexers},
    {"indexer_loss_scaling_factor", [](S s) { return s.real("indexer_loss_scaling_factor") > 0; }, kOfIndexLoss},
    {"decoder_block=qwen3_next or qwen3_5", has_delta_layers, kOfDelta},
    {"mhc_expansion_rate above 1", has_streams, kOfStreams},
    {"mhc_expansion_rate above 1, and enable_mhc_lite=false", [](S s) { return has_streams(s) && !s.boolean("enable_mhc_lite"); },
     kOfSinkhorn},
    {"attention that is not mla", [](S s) { return !has_latent_attention(s); }, kOfHeads},
    {"rope_type=yarn, or attention_type=mla and max_position_embeddings above original_max_position_embeddings",
     [](S s) { return turns_as_yarn(s) || is_stretched_latent(s); }, kOfStretching},
    {"rope_type=yarn, or attention_type=mla and at least max_position_embeddings",
     [](S s) { return turns_as_yarn(s) || (has_latent_attention(s) && !is_stretched_latent(s)); }, kOfOldLength},
    {"rope_type=yarn", turns_as_yarn, kOfYarn},
    {"rope_type=llama3.1", uses_llama3_rope, kOfLlama3},
    {"rope_use_scale=true", [](S s) { return s.boolean("rope_use_scale"); }, kOfStretchedLow},
    {"rope_type=default", turns_plainly, kOfPlainRope},
    {"another rope_type than yarn", [](S s) { return !turns_as_yarn(s); }, kOfOtherThanYarn},
    {"logits_via_embedding=true", [](S s) { return s.boolean("logits_via_embedding"); }, kOfTied},
    {"logits_via_embedding=false", [](S s) { return !s.boolean("logits_via_embedding"); }, kOfUntied},

    {"remat_policy=custom", has_named_remat, kSavedValues},
    {"remat_policy=custom", has_named_remat, kOfNamedRemat},

    {"lr_schedule_type=wsd", [](S s) { return s.text("lr_schedule_type") == "wsd"; }, kOfWsd},
    {"gradient_accumulation_steps above 1", [](S s) { return s.integer("gradient_accumulation_steps") > 1; }, kOfPasses},
    {"opt_type=muon", [](S s) { return is_optimizer(s, Optimizer::muon); }, kOfMuon},
    {"another opt_type than sgd", [](S s) { return !is_optimizer(s, Optimizer::sgd); }, kOfMoments},
    {"opt_type=adamw or adam_pax", [](S s) { return is_optimizer(s, Optimizer::adamw) || is_optimizer(s, Optimizer::adam_pax); }, kOfAdam},
    {"opt_type=adamw or muon", [](S s) { return is_optimizer(s, Optimizer::adamw) || is_optimizer(s, Optimizer::muon); }, kOfChosenMoments},
    {"use_qk_clip=true", [](S s) { return s.boolean("use_qk_clip"); }, kOfClips},
    {"skip_step_on_spikes=true", [](S s) { return s.boolean("skip_step_on_spikes"); }, kOfSpikes},
    {"non_finite_policy=stop", [](S s) { return s.text("non_finite_policy") == "stop"; }, kOfStopping},

    {"ici_pipeline_parallelism or dcn_pipeline_parallelism above 1", has_pipeline, kOfStages},
    {"compile_topology of chips, as products of float32 are exact here",
     [](S s) { return !s.text("compile_topology").empty() && !s.text("compile_topology").starts_with("cpu-"); }, kOfChips},
    {"this machine, without compile_topology", [](S s) { return s.text("compile_topology").empty(); }, kOfThisMachine},

    {"dataset_type=text, jsonl, tokens or megatron", reads_files, kOfFiles},
    {"enable_data_shuffling=true", [](S s) { return s.boolean("enable_data_shuffling"); }, kOfShuffling},
    {"dataset_type=text or jsonl", [](S s) { return is_data(s, "text") || is_data(s, "jsonl"); }, kOfTexts},
    {"tokenizer_path of dataset_type=text or jsonl", has_tokenizer, kOfTokenizers},
    {"dataset_type=jsonl, or tokenizer_path of dataset_type=text", [](S s) { return is_data(s, "jsonl") || has_tokenizer(s); }, kOfEnds},
    {"dataset_type=jsonl", [](S s) { return is_data(s, "jsonl"); }, kOfLines},
    {"dataset_type=jsonl or megatron", has_documents, kOfDocuments},
    {"dataset_type=jsonl or megatron, or max_segments_per_seq of synthetic data",
     [](S s) { return reads_files(s) || s.integer("max_segments_per_seq") > 1; }, kOfSegments},
    {"dataset_type=synthetic", [](S s) { return is_synthetic(s) || (has_documents(s) && s.boolean("packing")); }, kOfSynthetic},
    {"packing=false", [](S s) { return !s.boolean("packing"); }, kOfUnpacked},
    {"eval_interval above 0", [](S s) { return s.integer("eval_interval") > 0; }, kOfEvaluation},
    {"eval_interval above 0 and eval_dataset_path",
     [](S s) { return s.integer("eval_interval") > 0 && !s.text("eval_dataset_path").empty(); }, kOfOwnValidation},
    {"another decode_sampling_strategy than greedy", [](S s) { return !samples(s, {"greedy"}); }, kOfDraws},
    {"decode_sampling_strategy=topk or composite", [](S s) { return samples(s, {"topk", "composite"}); }, kOfTopK},
    {"decode_sampling_strategy=nucleus or composite", [](S s) { return samples(s, {"nucleus", "composite"}); }, kOfNucleus},
    {"enable_checkpointing=true", [](S s) { return s.boolean("enable_checkpointing"); }, kOfCheckpoints},
    {"max_num_checkpoints_to_keep", [](S s) { return !s.is_null("max_num_checkpoints_to_keep"); }, kOfOldCheckpoints},
};

}  // namespace

bool Need::names(std::string_view key) const { return std::find(keys.begin(), keys.end(), key) != keys.end(); }

std::span<const Need> needs() { return kNeeds; }

std::string_view unmet_need(const Settings& settings, std::string_view key) {
  for (const Need& need : kNeeds) {
    if (need.names(key) && !need.is_met(settings)) return need.words;
  }
  return {};
}

void note_irrelevant(const Settings& settings, std::vector<std::string>& notices) {
  std::vector<std::string> told;
  for (const Need& need : kNeeds) {
    std::vector<std::string> keys;
    for (const std::string_view key : need.keys) {
      const bool is_asked = settings.is_by_user(key) && !settings.is_default(key);
      if (is_asked && unmet_need(settings, key) == need.words) keys.emplace_back(key);
    }
    if (!keys.empty()) told.push_back(fmt::format("{} (only with {})", join(keys, ", "), need.words));
  }
  if (!told.empty()) notices.push_back("without effect on this model or run: " + join(told, "; "));
  const bool asks_for_norms = settings.is_by_user("use_qk_norm") && settings.boolean("use_qk_norm");
  if (asks_for_norms && !takes_head_norms(settings) && sizes_queries_by_norm(settings)) {
    notices.push_back(fmt::format(
        "use_qk_norm=true changes no layer of decoder_block={}, as in MaxText: it says how large query kernels are at first",
        settings.text("decoder_block")));
  }
}

}  // namespace moesh::config
