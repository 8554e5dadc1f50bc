// Every key that the table calls used has an effect that a user can observe: each is changed once, in a request to which it applies.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "config/schema.h"
#include "decode/source.h"
#include "session/session.h"
#include "tests/config/observed.h"
#include "tests/config/small_models.h"
#include "tests/paths.h"
#include "tests/support.h"

namespace moesh::config {
namespace {

using test::kDeepseek;
using test::kDeepseek4;
using test::kDense;
using test::kGemma3;
using test::kGemma4;
using test::kGptOss;
using test::kIndexed;
using test::kLlama;
using test::kLlama4;
using test::kQwen;
using test::kQwenNext;
using test::kSlots;
using test::kSparse;
using test::kStreams;
using test::kYarn;

const std::string kGroups = kDeepseek + "n_routing_groups=2 topk_routing_group=1 num_experts_per_tok=1 ";
// Scores are 0 where both heads' products are negative, so the scores of some keys are equal.
const std::string kTiedIndex = kIndexed + "indexer_topk=2 ";
const std::string kQwenExperts = kSparse + "decoder_block=qwen3_moe ";
const std::string kStretched = kLlama + "rope_type=llama3.1 max_target_length=64 rope_max_timescale=1000000000 llama3_original_positions=32 ";
const std::string kCustom = kLlama + "remat_policy=custom ";
const std::string kCustomExperts = kSparse + "remat_policy=custom ";
const std::string kCustomLatent = kDeepseek + "remat_policy=custom ";
const std::string kDevices =
    kSparse + "compile_topology=cpu-4 per_device_batch_size=1 max_target_length=16 base_emb_dim=16 ";
const std::string kExpertAxis = kDevices + "ici_fsdp_parallelism=1 ici_expert_parallelism=4 ";
const std::string kContextAxis =
    kLlama +
    "compile_topology=cpu-2 per_device_batch_size=1 max_target_length=16 base_emb_dim=16 ici_fsdp_parallelism=1 ";
// A request in which any mesh axis may be set, also one that shards nothing of a training batch.
const std::string kMesh =
    kLlama +
    "vocab_size=64 per_device_batch_size=4 max_target_length=16 base_emb_dim=16 base_mlp_dim=32 "
    "base_num_query_heads=4 base_num_kv_heads=2 ici_fsdp_parallelism=1 dcn_data_parallelism=1 compile_topology= ";
const std::string kStages = kMesh + "ici_pipeline_parallelism=2 base_num_decoder_layers=8 ";
const std::string kWsd = kLlama + "lr_schedule_type=wsd ";
const std::string kMuon = kLlama + "opt_type=muon ";
// The first updates of these requests are far too large steps: one run ends in values that are not finite,
// the other in an unbounded gradient.
const std::string kDiverging =
    kLlama + "dtype=float32 learning_rate=1000000 warmup_steps_fraction=0 adam_weight_decay=1 steps=4 ";
const std::string kExploding =
    kLlama +
    "dtype=float32 base_num_decoder_layers=1 opt_type=sgd gradient_clipping_threshold=0 learning_rate=0.1 "
    "warmup_steps_fraction=0 z_loss_multiplier=1000000 mlp_activations=[sigmoid,sigmoid] steps=2 ";

const std::string kKept = kLlama + "enable_checkpointing=true steps=4 ";

// Requests that read data files; DataFolder writes them.
const std::string kText = kLlama + "vocab_size=256 dataset_type=text dataset_path=text.txt ";
const std::string kJsonl = kLlama + "vocab_size=256 dataset_type=jsonl dataset_path=docs.jsonl ";

const std::string kEvaluated = kText + "eval_interval=1 eval_dataset_path=other.txt steps=3 ";
const std::string kTokenizer = (test::source_folder() / "tests/golden/tokenizers/spm-bpe").string() + " ";
const std::string kTokenized = kLlama + "vocab_size=480 dataset_type=text dataset_path=text.txt tokenizer_path=" + kTokenizer;
const std::string kTokens = kLlama + "vocab_size=65536 dataset_type=tokens dataset_path=tokens.bin token_bytes=2 ";

struct Effect {
  std::string change, before;
};

const std::vector<Effect> kEffects{
    {"backend=reference", kLlama},
    {"num_vocab_tiling=2", kDevices + "base_num_kv_heads=2 ici_fsdp_parallelism=1 ici_data_parallelism=2 ici_tensor_parallelism=2 "},
    {"owners=2", kContextAxis + "ici_context_parallelism=2 "},
    {"attention=dot_product", kLlama},
    {"mtp_num_layers=1", kLlama},
    {"mtp_loss_scaling_factor=0.5", kLlama + "mtp_num_layers=1 "},
    {"attention_type=global", kDeepseek},
    {"sliding_window_size=2", kGptOss},
    {"attention_bias=false", kGptOss},
    {"bias_and_norm_anywhere=true", kLlama + "attention_bias=true "},
    {"attention_sink=false", kGptOss},
    {"attention_sink=true", kLlama},
    {"mlp_bias=true", kDense},
    {"attention_out_bias=false", kGptOss},
    {"attention_score_scale=0.5", kLlama},
    {"layer_attention=[sliding]", kLlama + "sliding_window_size=2 "},
    {"use_qk_norm=true", kQwen},
    {"v_norm_with_scale=false", kGemma4},
    {"qk_norm_with_scale=false", kGemma3},
    {"share_kv_projections=true", kGemma4},
    {"share_kv_projections=true", kLlama + "decoder_block=default "},
    {"global_head_dim=24", kGemma4},
    {"global_num_kv_heads=2", kGemma4},
    {"global_rope_max_timescale=50", kGemma4},
    {"global_rope_proportion=0.5", kGemma4},
    {"local_rope_proportion=0.5", kGemma4},
    {"layer_positions=[none]", kLlama},
    {"chunk_attn_window_size=3", kLlama4},
    {"temperature_tuning=false", kLlama4},
    {"temperature_tuning_scale=0.5", kLlama4},
    {"temperature_tuning_floor=2", kLlama4},
    {"nope_layer_interval=2", kLlama4},
    {"attn_logits_soft_cap=0.01", kLlama},
    {"context_parallel_load_balance=false", kContextAxis + "ici_context_parallelism=2 "},
    {"q_lora_rank=0", kDeepseek},
    {"use_qk_clip=true", kDeepseek + "qk_clip_threshold=0.0001 "},
    {"use_indexer=false", kIndexed},
    {"indexer_n_heads=3", kIndexed},
    {"indexer_head_dim=16", kIndexed},
    {"indexer_topk=2", kIndexed},
    {"indexer_mask_exact_topk=false", kTiedIndex},
    {"indexer_loss_scaling_factor=0.2", kIndexed},
    {"indexer_sparse_training=false", kIndexed},
    {"use_sparse_indexer=true", kDeepseek + "indexer_topk=3 indexer_head_dim=12 "},
    {"index_n_heads=3", kDeepseek + "use_indexer=true indexer_topk=3 indexer_head_dim=12 "},
    {"index_head_dim=16", kDeepseek + "use_indexer=true indexer_topk=3 "},
    {"index_topk=2", kDeepseek + "use_indexer=true indexer_head_dim=12 "},
    {"mhc_expansion_rate=2", kDeepseek},
    {"sinkhorn_iterations=1", kStreams},
    {"enable_mhc_lite=true", kStreams},
    {"compress_ratios=[0,4,0,4]", kDeepseek4},
    {"compressed_rope_max_timescale=100", kDeepseek4},
    {"o_groups=1", kDeepseek4},
    {"o_lora_rank=8", kDeepseek4},
    {"first_num_hash_layers=2", kDeepseek4},
    {"gdn_num_key_heads=1", kQwenNext},
    {"gdn_num_value_heads=2", kQwenNext},
    {"gdn_key_head_dim=8", kQwenNext},
    {"gdn_value_head_dim=4", kQwenNext},
    {"gdn_conv_kernel_dim=2", kQwenNext},
    {"use_qk_norm_in_gdn=false", kQwenNext},
    {"qk_clip_threshold=0.0001", kDeepseek + "use_qk_clip=true "},
    {"kv_lora_rank=16", kDeepseek},
    {"qk_nope_head_dim=16", kDeepseek},
    {"qk_rope_head_dim=16", kDeepseek},
    {"v_head_dim=16", kDeepseek},
    {"rope_type=yarn", kLlama},
    {"rope_min_timescale=2", kLlama},
    {"rope_max_timescale=100", kLlama},
    {"rope_linear_scaling_factor=4", kLlama},
    {"rope_use_scale=false", kLlama + "rope_type=llama3.1 max_target_length=64 rope_max_timescale=1000000000 "},
    {"llama3_rope_factor=2", kStretched},
    {"llama3_low_freq_factor=2", kStretched},
    {"llama3_high_freq_factor=3", kStretched},
    {"llama3_original_positions=64", kStretched},
    {"rope_attention_factor=2", kYarn},
    {"mla_norm_epsilon=0.1", kDeepseek},
    {"max_position_embeddings=16", kYarn},
    {"original_max_position_embeddings=64", kYarn},
    {"rope_factor=8", kYarn},
    {"beta_fast=32", kYarn},
    {"beta_slow=4", kYarn},
    {"mscale=3", kYarn},
    {"rope_interleave=false", kYarn},
    {"rope_truncate=false", kYarn},
    {"rope_attention_scaling=true", kYarn},
    {"enable_checkpointing=true", kLlama},
    {"checkpoint_period=2", kKept},
    {"save_checkpoint_on_start=false", kKept},
    {"save_checkpoint_on_completion=false", kKept},
    {"async_checkpointing=false", kKept},
    {"max_num_checkpoints_to_keep=1", kKept},
    {"checkpoint_todelete_subdir=.todelete", kKept + "max_num_checkpoints_to_keep=1 "},
    {"load_parameters_path=nowhere", kKept},
    {"load_full_state_path=nowhere", kKept},
    {"dataset_type=text", kText + "dataset_type=synthetic "},
    {"dataset_path=other.txt", kText},
    {"train_data_columns=[title]", kJsonl},
    {"packing=false", kJsonl},
    {"dataset_path=docs.jsonl,1;docs.jsonl,2", kJsonl},
    {"max_segments_per_seq=3", kLlama},
    {"token_bytes=4", kTokens},
    {"enable_data_shuffling=false", kText},
    {"data_shuffle_seed=7", kText},
    {"expansion_factor_real_data=2", kLlama},
    {"use_truncation=false", kJsonl + "packing=false "},
    {"tokenizer_path=some.model", kText},
    {"tokenizer_type=huggingface", kTokenized},
    {"tokenize_train_data=false", kJsonl},
    {"add_bos=false", kTokenized},
    {"add_eos=false", kJsonl},
    {"eval_interval=1", kText + "eval_fraction=0.3 "},
    {"eval_fraction=0.3", kText},
    {"eval_dataset_path=text.txt", kEvaluated},
    {"mtp_eval_target_module=1", kEvaluated + "mtp_num_layers=1 "},
    {"eval_steps=1", kEvaluated + "eval_per_device_batch_size=1 "},
    {"eval_start_step=1", kEvaluated},
    {"eval_per_device_batch_size=1", kEvaluated},
    {"target_eval_loss=1000", kEvaluated},
    {"eval_data_columns=[title]", kJsonl + "eval_interval=1 eval_dataset_path=docs.jsonl "},
    {"tokenize_eval_data=false", kJsonl + "eval_interval=1 eval_dataset_path=docs.jsonl "},
    {"remat_policy=minimal", kLlama},
    {"remat_gradients=false",
     kLlama + "compile_topology=cpu-1 base_emb_dim=48 base_mlp_dim=64 per_device_batch_size=1 max_target_length=4 "},
    {"context=device", kCustom},
    {"mlpwi_0=device", kCustom},
    {"mlpwi_1=device", kCustom},
    {"mlpwo=device", kGemma3 + "remat_policy=custom "},
    {"moe_mlpwi_0=device", kCustomExperts},
    {"moe_mlpwi_1=device", kCustomExperts},
    {"moe_mlpwo=device", kCustomExperts},
    {"query_proj=device", kCustom},
    {"qkv_proj=device", kCustom + "fused_qkv=true "},
    {"mlpwi=device", kCustom + "mlp_activations=[gelu] "},
    {"key_proj=device", kCustom},
    {"value_proj=device", kCustom},
    {"out_proj=device", kCustom},
    {"query_wa_proj=device", kCustomLatent},
    {"indexer_cutoff_threshold=device", kIndexed + "remat_policy=custom "},
    {"kv_wa_proj=device", kCustomLatent},
    {"mla_q=device", kCustomLatent},
    {"mla_kv=device", kCustomLatent},
    {"attention_out=device", kCustom},
    {"num_slices=2", kMesh + "dcn_data_parallelism=-1 "},
    {"decoder_block=qwen3", kLlama},
    {"global_parameter_scale=2", kLlama},
    {"base_emb_dim=16", kLlama},
    {"base_mlp_dim=32", kLlama},
    {"base_num_decoder_layers=3", kLlama},
    {"base_num_query_heads=4", kLlama},
    {"base_num_kv_heads=2", kLlama},
    {"head_dim=4", kLlama},
    {"vocab_size=32", kLlama},
    {"inhomogeneous_layer_cycle_interval=1", kGptOss},
    {"scan_layers=false", kLlama},
    {"param_scan_axis=0", kLlama},
    {"mlp_activations=[gelu,linear]", kLlama},
    {"mlp_activations=[gelu,linear]", kSparse},
    {"mlp_activations=[gelu,linear]", kGptOss},
    {"mlp_activations_limit=0.01", kGptOss},
    {"mlp_activations_limit=0.01", kDeepseek},
    {"mlp_bias=false", kGptOss},
    {"normalization_layer_epsilon=0.1", kLlama},
    {"dense_init_scale=2", kSparse},
    {"logits_via_embedding=true", kLlama},
    {"fused_qkv=true", kLlama},
    {"fused_mlp=true", kLlama},
    {"use_post_attn_norm=true", kGemma3},
    {"use_post_ffw_norm=true", kGemma3},
    {"norm_scales_above_one=true", kLlama},
    {"scale_embeddings=true", kLlama},
    {"trainable_position_size=64", kLlama},
    {"normalize_embedding_logits=false", kLlama + "logits_via_embedding=true "},
    {"final_logits_soft_cap=1", kLlama + "logits_via_embedding=true "},
    {"untied_logits_soft_cap=1", kLlama},
    {"layer_norm_epsilon=0.1", kGemma3},
    {"partial_rotary_factor=0.5", kLlama},
    {"local_rope_max_timescale=50", kGptOss + "rope_type=default "},
    {"local_rope_type=default", kGptOss + "rope_linear_scaling_factor=4 rope_type=default "},
    {"shared_expert_mlp_dim=16", kDeepseek + "shared_experts=1 "},
    {"round_tied_embedding=false", kLlama + "logits_via_embedding=true dtype=float32 "},
    {"dtype=float32", kLlama},
    {"weight_dtype=bfloat16", kLlama},
    {"grad_dtype=bfloat16", kLlama},
    {"activations_in_float32=true", kLlama},
    {"logits_dot_in_fp32=true", kLlama},
    {"cast_logits_to_fp32=false", kLlama},
    {"float32_qk_product=true", kLlama},
    {"float32_logits=true", kLlama},
    {"num_experts=8", kSparse},
    {"num_experts_per_tok=1", kSparse},
    {"base_moe_mlp_dim=32", kDeepseek},
    {"first_num_dense_layers=0", kDeepseek + "base_mlp_dim=24 "},
    {"shared_experts=1", kDeepseek + "shared_experts=0 "},
    {"routed_score_func=softmax", kDeepseek},
    {"routed_bias=false", kDeepseek},
    {"routed_bias_update_rate=0.5", kDeepseek},
    {"routed_scaling_factor=3", kDeepseek},
    {"norm_topk_prob=true", kSparse},
    {"layer_mlp=[dense]", kQwenExperts},
    {"interleave_moe_layer_step=1", kLlama4},
    {"routed_weights=scores", kSparse},
    {"routing_group_score=best", kGroups},
    {"n_routing_groups=4", kGroups + "num_experts=8 "},
    {"topk_routing_group=2", kGroups},
    {"load_balance_loss_weight=0.5", kSparse},
    {"use_random_routing=true", kSparse},
    {"router_skew=2", kSparse},
    {"float32_weight_sum=false", kDense},
    {"float32_gate_logits=true", kSparse},
    {"sparse_matmul=false", kSparse},
    {"capacity_factor=2", kSlots},
    {"use_ring_of_experts=true", kExpertAxis},
    {"ragged_buffer_factor=0.5", kExpertAxis},
    {"num_moe_token_chunks=2", kSparse + "max_target_length=8 "},
    {"moe_chunk_barrier=true", kExpertAxis + "num_moe_token_chunks=2 "},
    {"num_moe_emb_chunks=2", kSparse},
    {"use_batch_split_schedule=true", kDevices},
    {"batch_split_factor=2", kSparse + "use_batch_split_schedule=true per_device_batch_size=2 "},
    {"moe_dispatch_no_expert_sharding=true", kSlots + kExpertAxis + "sparse_matmul=false "},
    {"shard_exp_on_fsdp=true", kDevices},
    {"fsdp_shard_on_exp=true", kDevices},
    {"use_2d_fsdp_sharding=true", kDevices},
    {"expert_shard_attention_option=fsdp", kDevices},
    {"metrics_file=m.jsonl", kLlama},
    {"enable_tensorboard=false", kLlama},
    {"run_name=mine", kLlama},
    {"base_output_directory=mine", kLlama + "run_name=a "},
    {"model_name=llama2-7b", kLlama + "override_model_config=true "},
    {"log_config=true", kLlama},
    {"plan=some.plan", kLlama},
    {"compile_topology=cpu-2", kLlama},
    {"compile_topology_num_slices=2", kLlama + "compile_topology=cpu-2 "},
    {"custom_mesh_and_rule=pure-fsdp", kDevices},
    {"mesh_axes=[fsdp]", kDevices + "dcn_data_parallelism=1 "},
    {"logical_axis_rules=[[embed,[]]]", kDevices},
    {"override_logical_axis_rules=true", kDevices + "logical_axis_rules=[[embed,[fsdp]]] "},
    {"input_data_sharding_logical_axes=[activation_batch,activation_length]", kLlama},
    {"context_sharding=expert", kContextAxis + "ici_context_parallelism=2 "},
    {"shard_optimizer_over_data=true", kDevices + "ici_fsdp_parallelism=1 ici_data_parallelism=4 "},
    {"sharding_tolerance=0.9", kDevices + "base_num_kv_heads=2 ici_fsdp_parallelism=1 ici_data_parallelism=2 ici_tensor_parallelism=2 "
                                          "logical_axis_rules=[[embed,[]],[vocab,[]]] "},
    {"num_layers_per_pipeline_stage=2", kStages},
    {"pipeline_parallel_layers=4", kStages},
    {"num_pipeline_microbatches=4", kStages},
    {"pipeline_delay_activation_forwarding=true", kStages},
    {"scan_layers_per_stage=true", kStages + "num_layers_per_pipeline_stage=2 "},
    {"steps=21", kLlama},
    {"per_device_batch_size=3", kLlama},
    {"max_target_length=8", kLlama},
    {"gradient_accumulation_steps=2", kLlama},
    {"reduce_gradients=once", kDevices + "ici_data_parallelism=4 ici_fsdp_parallelism=1 gradient_accumulation_steps=2 "},
    {"z_loss_multiplier=0.1", kLlama},
    {"init_weights_seed=1", kLlama},
    {"profiler=xplane", kLlama},
    {"skip_first_n_steps_for_profiler=2", kLlama + "profiler=xplane "},
    {"profiler_steps=1", kLlama + "profiler=xplane "},
    {"abort_on_nan_loss=false", kDiverging},
    {"abort_on_inf_loss=false", kExploding},
    {"non_finite_policy=skip_step", kDiverging},
    {"skip_step_on_spikes=true", kLlama},
    {"reuse_example_batch=1", kText},
    {"learning_rate=0.5", kLlama},
    {"lr_schedule_type=wsd", kLlama},
    {"warmup_steps_fraction=0.5", kLlama},
    {"learning_rate_final_fraction=0.5", kLlama},
    {"learning_rate_schedule_steps=10", kLlama},
    {"wsd_decay_steps_fraction=0.5", kWsd},
    {"wsd_decay_style=cosine", kWsd + "wsd_decay_steps_fraction=0.5 "},
    {"opt_type=sgd", kLlama},
    {"gradient_clipping_threshold=0.001", kLlama},
    {"adam_b1=0.5", kLlama},
    {"adam_b2=0.5", kLlama},
    {"adam_eps=0.5", kLlama},
    {"adam_eps_root=0.5", kLlama},
    {"adam_weight_decay=0.5", kLlama + "learning_rate=0.1 "},
    {"adamw_mask=[kernel]", kLlama + "learning_rate=0.1 "},
    {"trainable_parameters_mask=[kernel]", kLlama},
    {"mu_dtype=bfloat16", kLlama},
    {"muon_beta=0.5", kMuon},
    {"muon_weight_decay=0.5", kMuon + "learning_rate=0.1 "},
    {"muon_consistent_rms=0.2", kMuon},
};

std::string key_of(const Effect& effect) { return effect.change.substr(0, effect.change.find('=')); }

// Keys whose effect a change of one value does not show, with the test that shows it.
const std::set<std::string> kElsewhere{
    "skip_step_interval",        // RecentSteps.LimitByTheLastOnes
    "skip_step_scaling_factor",  // RecentSteps.LimitByTheLastOnes
    "matmul_precision",       // Compile.TakesThePrecisionOfProductsIntoAccount
    "base_config",            // Load.ReadsWhatAFileInheritsBeforeIt
    "override_model_config",  // LoadModel.RefusesAnOverrideThatContradictsThePreset
    "num_pipeline_repeats",   // Pipeline.RefusesLayersThatDoNotDivide
    "attention_output_dim",   // ModelShape.ExpertsOfTheCustomQwenTakeWhatAttentionGives
    "moe_expert_input_dim",   // ModelShape.ExpertsOfTheCustomQwenTakeWhatAttentionGives
    "shard_mode",             // Explicit.NamesTheOpAndTheTwoSpecs
    "quantization",           // Rounding.IsOfTheProductsThatTheReferenceQuantizes
    "collective_timeout",     // Together.AProcessThatDoesNotAnswerIsGivenUp
    "use_ragged_sort",        // CheckSettings.RefusesABoundOfARingThatDoesNotSort
    "decoder_layer_input",    // Offload.LeavesTwoLayersOnTheDevice
    "optimizer_memory_host_offload",  // Offload.BringsMomentsForTheirUpdate
    "prompt",                 // DecodeCommand.GoesOnWithThePromptOfTheSettings
    "autoregressive_decode_assert",  // DecodeCommand.HoldsTextsToABeginning
    "max_prefill_predict_length",  // CompileDecoding.PlansPromptsOfTheirLength
    // Sampling.IsAsTheKeysSay
    "decode_sampling_strategy",
    "decode_sampling_temperature",
    "decode_sampling_top_k",
    "decode_sampling_nucleus_p",
    "decode_sampling_min_p",
    "decode_sampling_repetition_penalty",
    "decode_sampling_seed",
};

// Sets each axis size by itself, which makes a mesh of two devices. The default mesh has no sequence axis, so the request adds one.
std::vector<Effect> axis_effects() {
  std::vector<Effect> effects;
  for (const Topic& topic : topics()) {
    for (const Key& key : topic.keys) {
      const bool is_size =
          key.name.ends_with("_parallelism") && (key.name.starts_with("ici_") || key.name.starts_with("dcn_"));
      if (!is_size || key.status != Status::used) continue;
      const bool is_named =
          key.name.find("_sequence_") == std::string_view::npos || key.name.find("tensor") != std::string_view::npos;
      effects.push_back({std::string(key.name) + "=2", is_named ? kMesh : kMesh + "mesh_axes=[data,fsdp,sequence] "});
    }
  }
  return effects;
}

std::vector<Effect> all_effects() {
  std::vector<Effect> effects = kEffects;
  for (Effect& effect : axis_effects()) effects.push_back(std::move(effect));
  return effects;
}

TEST(Effects, AreLookedForOfEveryKeyThatIsUsed) {
  std::set<std::string> looked_at = kElsewhere;
  for (const Effect& effect : all_effects()) looked_at.insert(key_of(effect));
  for (const Topic& topic : topics()) {
    for (const Key& key : topic.keys) {
      EXPECT_EQ(looked_at.contains(std::string(key.name)), key.status == Status::used) << key.name;
    }
  }
}

class DataFolder {
 public:
  DataFolder() : here_(folder_.path()) {
    folder_.write("text.txt",
                  "The quick brown fox jumps over the lazy dog; pack my box with five dozen liquor jugs.\n");
    folder_.write("other.txt", "Sphinx of black quartz, judge my vow.\n");
    folder_.write("tokens.bin", std::string("\1\0\2\0\3\0\4\0\5\0\6\0\7\0\10\0", 16));
    folder_.write("docs.jsonl",
                  "{\"text\": \"a document that is longer than a row\", \"title\": \"one\"}\n"
                  "{\"text\": \"short\", \"title\": \"the second of them\"}\n");
  }

 private:
  test::TemporaryFolder folder_;
  test::WorkingFolder here_;
};

TEST(EffectsSlow, EveryKeyThatIsUsedHasOne) {
  const DataFolder folder;
  for (const Effect& effect : all_effects()) {
    bool has_effect = false;
    const std::string error =
        test::message_of([&] { has_effect = test::differ(effect.before, effect.before + effect.change); });
    EXPECT_TRUE(has_effect) << effect.change << " changes nothing that can be observed: " << error;
  }
}

// What a run goes on with must be all that its model is: `mhc_expansion_rate`, say, was once left behind.
TEST(EffectsSlow, KeysThatChangeAModelGoWithItsWeights) {
  const auto parameters = [](const std::string& request) {
    const session::Session session = session::open(test::words_of(request));
    std::string text;
    for (const sharding::LaidTensor& parameter : session.layout.parameters)
      text += fmt::format("{} {}\n", parameter.path, to_string(parameter.shape));
    return text;
  };
  // Earlier names of other keys, which take what is given by these, and stages of a pipeline, which are not run.
  const std::set<std::string> others{"use_sparse_indexer", "index_n_heads", "index_head_dim", "num_layers_per_pipeline_stage",
                                     "pipeline_parallel_layers", "scan_layers_per_stage", "ici_pipeline_parallelism",
                                     "dcn_pipeline_parallelism"};
  for (const Effect& effect : all_effects()) {
    const std::string key = key_of(effect);
    bool differs = others.contains(key);
    if (differs) continue;
    if (test::message_of([&] { differs = parameters(effect.before) != parameters(effect.before + effect.change); }) != "no error") continue;
    EXPECT_TRUE(!differs || decode::is_gone_on_with(key)) << key << " changes the parameters, and is not taken from a run";
  }
}

// The comparison must be able to find no difference; if it always found one, it would prove nothing about the keys above.
TEST(Effects, AreNotFoundWhereThereAreNone) {
  EXPECT_FALSE(test::differ(kLlama, kLlama + "steps=20"));
  EXPECT_FALSE(test::differ_as_models(kLlama, kLlama + "capacity_factor=2 shared_experts=3 megablox=false"));
}

}  // namespace
}  // namespace moesh::config
