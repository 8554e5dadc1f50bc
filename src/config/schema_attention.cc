// Attention: its kinds, masks, MLA and rotary positions.
#include "config/schema_topics.h"

namespace moesh::config {
namespace {

using enum Kind;
using enum Status;

constexpr std::string_view kHelpBlockDiffusion = "setting of block diffusion, which moesh does not do";

constexpr Key kAttention[] = {
    {"attention", choice, "autoselected",
     "autoselected|dot_product|flash|cudnn_flash_te|cudnn_flash_jax|!paged|!vllm_rpa|!vllm_batched_rpa", used,
     "how attention is computed: dot_product in full, flash or cudnn_flash_* by blocks, autoselected either"},
    {"attention_type", choice, "global", "global|local_sliding|mla|compressed|chunk|full|!block_diffusion", used,
     "global, MLA's latent keys, or compressed ones; no family of MaxText's heeds local_sliding, chunk and full here"},
    {"sliding_window_size", integer, "0", "0..1000000000", used, "keys a query sees under local_sliding, itself included; 0 for none"},
    {"attention_bias", boolean, "false", "", used,
     "adds a bias to attention's projections; of MaxText's families gpt_oss, olmo3 and qwen2 heed it, no others"},
    {"attention_out_bias", boolean, "true", "", used, "moesh's own: with attention_bias, the output projection has one too"},
    {"attention_score_scale", real, "-1.0", "-1..1000000", used,
     "moesh's own: what scores are multiplied with; -1 for the family's own way, mostly head_dim^-1/2"},
    {"layer_attention", texts, "[]", "", used,
     "moesh's own: sliding, chunked or full for each layer of a cycle; empty for the family's own"},
    {"layer_positions", texts, "[]", "", used, "moesh's own: rotary or none for each layer of a cycle; empty for the family's own"},
    {"attention_sink", boolean, "false", "", used, "adds a learned column to the softmax that takes weight and gives no value"},
    {"use_qk_norm", boolean, "false", "", used,
     "norms of queries and keys in qwen2, qwen3*, envy, llama4 (after rotation) and olmo3 (over all heads)"},
    {"bias_and_norm_anywhere", boolean, "false", "", used,
     "moesh's own: every family heeds attention_bias and use_qk_norm, as Hugging Face's models do"},
    {"qk_norm_with_scale", boolean, "true", "", used, "a learned scale in the norm of queries and keys"},
    {"v_norm_with_scale", boolean, "true", "", used, "gemma4: a learned scale in the norm of values"},
    {"global_head_dim", integer, "0", kSizeOrZero, used, "gemma4: width of a head in layers that see all before them; 0 for head_dim"},
    {"global_num_kv_heads", integer, "0", kCountOrZero, used,
     "gemma4: key and value heads of layers that see all before them; 0 for those of the others"},
    {"attn_logits_soft_cap", real, "0.0", "0..1000000000", used, "squeezes attention scores into a range by tanh; 0 for none"},
    {"attention_output_dim", integer, "-1", "-1..1000000000", used,
     "qwen3_custom_moe: width of attention's result; -1 for that of the residual stream"},
    {"share_kv_projections", boolean, "false", "", used,
     "gemma4, in layers that see all before them, and default: one projection for keys and values"},
    {"chunk_attn_window_size", integer, "0", "0..1000000000", used,
     "length of the chunks of the sequence that layers with chunked attention stay within"},
    {"causal_block_size", integer, "32", "", accepted, kHelpBlockDiffusion},
    {"temperature_tuning", boolean, "false", "", used,
     "where there are no rotary positions, multiplies queries by 1 + SCALE * ln(1 + floor((place + 1) / FLOOR))"},
    {"temperature_tuning_scale", real, "0.1", "0..1000000", used, "moesh's own: SCALE of temperature_tuning"},
    {"temperature_tuning_floor", real, "8192.0", "0.000001..1000000000", used, "moesh's own: FLOOR of temperature_tuning"},
    {"context_parallel_load_balance", boolean, "true", "", used,
     "deals the sequence out for equal work under the causal mask; results are equal"},
    {"context_parallel_strategy", choice, "all_gather", "all_gather|!ring|!ulysses|!usp", planned_without,
     "how context shards reach each other's keys and values; only all_gather here"},
    {"context_parallel_reorder_strategy", choice, "auto", "auto|dual_chunk_swap|!striped", accepted,
     "order in which context_parallel_load_balance deals a sequence out; results are equal"},
    {"use_qk_clip", boolean, "false", "", used,
     "with attention_type=mla: shrinks query and key weights of heads with scores above qk_clip_threshold"},
    {"qk_clip_threshold", real, "100.0", "0..1000000000", used, "score above which use_qk_clip acts"},
};

constexpr Key kMla[] = {
    {"q_lora_rank", integer, "0", "0..1000000000", used, "width of MLA's latent query; 0 to project queries directly"},
    {"kv_lora_rank", integer, "512", "0..1000000000", used, "width of MLA's latent key and value"},
    {"qk_nope_head_dim", integer, "128", "0..1000000000", used, "width of the part of an MLA head that is not rotated"},
    {"qk_rope_head_dim", integer, "64", "0..1000000000", used, "width of the part of an MLA head that is rotated"},
    {"mla_norm_epsilon", real, "-1.0", "-1..1", used,
     "moesh's own: epsilon of the norms of MLA's latents; -1 for normalization_layer_epsilon"},
    {"v_head_dim", integer, "128", "0..1000000000", used, "width of an MLA head's value"},
    {"mla_naive_kvcache", boolean, "true", "", accepted,
     "caches MLA's keys and values in full rather than their latents; results are equal"},
    {"use_sliced_mla_proj", boolean, "false", "", accepted,
     "slices MLA's projection weights before the product; results are equal"},
};

constexpr Key kIndexer[] = {
    {"use_indexer", boolean, "false", "", used, "with attention_type=mla: narrow heads choose the keys that each query sees"},
    {"indexer_n_heads", integer, "64", kCount, used, "heads of the indexer"},
    {"indexer_head_dim", integer, "128", kSize, used, "width of a head of the indexer"},
    {"indexer_topk", integer, "2048", kCount, used, "keys that a query sees"},
    {"indexer_mask_exact_topk", boolean, "true", "", used,
     "of keys with equal scores takes only as many as indexer_topk allows, the first ones"},
    {"indexer_loss_scaling_factor", real, "0.0", "0..1000000000", used,
     "weight of the loss by which the indexer learns to score keys as attention does; 0 for none"},
    {"indexer_sparse_training", boolean, "false", "", used,
     "with that loss, compares chosen keys beside the loss of the next tokens; otherwise all keys, without it"},
    {"indexer_use_approx_top_k", boolean, "false", "", accepted, "chooses keys approximately on TPUs; exactly here"},
    {"indexer_approx_top_k_recall", real, "0.95", "", accepted, "setting of indexer_use_approx_top_k"},
    {"mla_qk_head_chunk_size", integer, "0", "0..", accepted, "heads that the indexer scores at a time, to save memory"},
};

constexpr Key kLinearAttention[] = {
    {"gdn_num_key_heads", integer, "16", kCount, used, "heads of keys and queries in layers with linear attention (Gated DeltaNet)"},
    {"gdn_num_value_heads", integer, "32", kCount, used, "heads of values there, each with a memory of its own"},
    {"gdn_key_head_dim", integer, "128", kSize, used, "width of a head of keys there"},
    {"gdn_value_head_dim", integer, "128", kSize, used, "width of a head of values there"},
    {"gdn_conv_kernel_dim", integer, "4", "1..64", used, "tokens that the convolution before linear attention sees"},
    {"use_qk_norm_in_gdn", boolean, "true", "", used, "gives queries and keys of linear attention the length 1"},
    {"gdn_chunk_size", integer, "64", kCount, accepted, "tokens that linear attention takes at a time; results are equal"},
};

constexpr Key kRope[] = {
    {"rope_type", choice, "default", "default|llama3.1|yarn", used,
     "how rotary frequencies are stretched for long sequences"},
    {"rope_min_timescale", integer, "1", "1..1000000000000", used, "shortest wavelength of rotary positions"},
    {"rope_max_timescale", integer, "10000", "1..1000000000000", used,
     "longest wavelength of rotary positions, often called theta"},
    {"rope_linear_scaling_factor", real, "1.0", "0.000001..1000000000", used,
     "divides the positions of rope_type=default"},
    {"rope_use_scale", boolean, "true", "", used,
     "with rope_type=llama3.1 or a model named llama3.1-*, stretches the low frequencies"},
    {"llama3_rope_factor", real, "8.0", "0.000001..1000000000", used,
     "moesh's own: with rope_type=llama3.1, factor by which low frequencies are stretched"},
    {"llama3_low_freq_factor", real, "1.0", "0.000001..1000000000", used,
     "moesh's own: with rope_type=llama3.1, turns over the original length up to which a frequency is low"},
    {"llama3_high_freq_factor", real, "4.0", "0.000001..1000000000", used,
     "moesh's own: with rope_type=llama3.1, turns over the original length from which a frequency is kept"},
    {"llama3_original_positions", integer, "8192", kSize, used,
     "moesh's own: with rope_type=llama3.1, longest sequence the model was first trained on"},
    {"max_position_embeddings", integer, "163840", kSize, used, "YaRN: longest sequence the model is meant for"},
    {"original_max_position_embeddings", integer, "4096", kSize, used,
     "YaRN: longest sequence the model was first trained on"},
    {"rope_factor", real, "40", "0.000001..1000000000", used, "YaRN: factor by which sequences grow"},
    {"beta_fast", real, "32", "0.000001..1000000000", used, "YaRN: turns from which a frequency is kept as it is"},
    {"beta_slow", real, "1", "0.000001..1000000000", used, "YaRN: turns up to which a frequency is stretched in full"},
    {"mscale", real, "1.0", "0..1000000", used, "YaRN: strength of the correction of MLA's softmax scale"},
    {"rope_interleave", boolean, "true", "", used,
     "YaRN: rotates neighbours (2i, 2i+1) rather than halves (i, i + d/2)"},
    {"rope_truncate", boolean, "true", "", used,
     "YaRN: rounds the ends of the range between kept and stretched frequencies"},
    {"rope_attention_scaling", boolean, "false", "", used, "YaRN: scales the rotation's result"},
    {"rope_attention_factor", real, "-1.0", "-1..1000000", used,
     "moesh's own: YaRN: what the rotation's result is multiplied with; -1 for what rope_attention_scaling says"},
    {"rope_pairwise", boolean, "false", "", accepted, "memory layout of rotated pairs; results are equal"},
    {"local_rope_max_timescale", integer, "-1", "-1..1000000000000", used,
     "with rope_type=default, another longest wavelength for windowed layers; -1 for the same"},
    {"local_rope_type", choice, "as_others", "as_others|default", used,
     "moesh's own: default: windowed layers are not stretched, whatever rope_type is, as in Hugging Face's models"},
    {"global_rope_max_timescale", integer, "-1", "-1..1000000000000", used,
     "gemma4: another longest wavelength for layers that see all before them; -1 for the same"},
    {"global_rope_proportion", real, "0.25", kFraction, used,
     "gemma4: share of a head that layers rotate which see all before them, by the whole head's frequencies"},
    {"local_rope_proportion", real, "1.0", kFraction, used, "gemma4: share of a head that windowed layers rotate"},
    {"partial_rotary_factor", real, "1.0", kFraction, used, "share of a head that is rotated, its first dims"},
    {"nope_layer_interval", integer, "-1", kCountOrAuto, used,
     "llama4: every so many layers, one without rotary positions, which sees all before it; -1 for none"},
    {"use_mrope", boolean, "false", "", accepted, "rotary positions in time, height and width; those of a text's tokens are equal"},
};

constexpr Topic kAttentionTopics[] = {
    {.title = "Attention", .keys = kAttention, .is_of_models = true},
    {.title = "Multi-head latent attention", .keys = kMla, .is_of_models = true},
    {.title = "Indexer of latent attention", .keys = kIndexer, .is_of_models = true},
    {.title = "Linear attention", .keys = kLinearAttention, .is_of_models = true},
    {.title = "Rotary positions", .keys = kRope, .is_of_models = true},
};

}  // namespace

std::span<const Topic> attention_topics() { return kAttentionTopics; }

}  // namespace moesh::config
