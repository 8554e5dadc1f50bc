// Small models of every family, in bfloat16 so that keys about number formats can matter. Keys that a test appends override these.
#pragma once

#include <string>

#include "tests/train/trainer_support.h"

namespace moesh::test {

inline const std::string kLlama = kTinyModel + "dtype=bfloat16 head_dim=8 vocab_size=24 ";
inline const std::string kQwen = kLlama + "decoder_block=qwen3 ";
inline const std::string kSparse =
    kLlama + "decoder_block=mixtral num_experts=4 num_experts_per_tok=2 base_mlp_dim=24 base_moe_mlp_dim=24 ";
inline const std::string kRing = kSparse + "use_ring_of_experts=true ";
inline const std::string kDense = kSparse + "sparse_matmul=false ";
inline const std::string kSlots = kDense + "capacity_factor=1 ";
inline const std::string kGptOss = kSparse +
                                   "decoder_block=gpt_oss attention_bias=true attention_sink=true mlp_bias=true "
                                   "base_num_decoder_layers=4 inhomogeneous_layer_cycle_interval=2 "
                                   "mlp_activations=[sigmoid,linear] mlp_activations_limit=7 ";
inline const std::string kLlama4 =
    kSparse +
    "decoder_block=llama4 num_experts_per_tok=1 shared_experts=1 base_num_decoder_layers=4 inhomogeneous_layer_cycle_interval=4 "
    "interleave_moe_layer_step=2 nope_layer_interval=4 chunk_attn_window_size=2 temperature_tuning=true rope_type=llama3.1 ";
inline const std::string kGemma2 = kLlama + "decoder_block=gemma2 sliding_window_size=2 use_post_attn_norm=true ";
inline const std::string kGemma3 = kLlama + "decoder_block=gemma3 sliding_window_size=2 base_num_decoder_layers=7 ";
inline const std::string kGemma4 = kLlama +
                                   "decoder_block=gemma4 sliding_window_size=2 base_num_decoder_layers=7 base_num_query_heads=4 "
                                   "base_num_kv_heads=2 global_num_kv_heads=1 global_head_dim=16 ";
inline const std::string kGemma4Moe =
    kGemma4 + "base_mlp_dim=24 base_moe_mlp_dim=16 num_experts=4 num_experts_per_tok=2 shared_experts=1 load_balance_loss_weight=0.01 ";
inline const std::string kGpt3 = kLlama + "decoder_block=gpt3 base_num_kv_heads=2 mlp_activations=[gelu] trainable_position_size=64 fused_qkv=true ";
inline const std::string kOlmo3 =
    kLlama + "decoder_block=olmo3 use_qk_norm=true sliding_window_size=2 base_num_decoder_layers=4 inhomogeneous_layer_cycle_interval=4 ";
inline const std::string kDefault = kLlama + "decoder_block=default ";
inline const std::string kEnvy = kSparse + "decoder_block=envy interleave_moe_layer_step=2 inhomogeneous_layer_cycle_interval=2 ";
inline const std::string kQwenNext = kSparse +
                                     "decoder_block=qwen3_next inhomogeneous_layer_cycle_interval=2 base_num_decoder_layers=2 "
                                     "gdn_num_key_heads=2 gdn_num_value_heads=4 gdn_key_head_dim=4 gdn_value_head_dim=8 ";
inline const std::string kQwenCustom = kSparse + "decoder_block=qwen3_custom_moe use_qk_norm=true ";
inline const std::string kDeepseek =
    kLlama +
    "decoder_block=deepseek model_name=deepseek3-tiny override_model_config=true attention_type=mla q_lora_rank=8 "
    "kv_lora_rank=8 "
    "qk_nope_head_dim=8 qk_rope_head_dim=8 v_head_dim=8 first_num_dense_layers=1 num_experts=4 num_experts_per_tok=2 "
    "base_moe_mlp_dim=24 rope_type=default ";
inline const std::string kStreams = kDeepseek + "mhc_expansion_rate=3 ";
inline const std::string kDeepseek4 =
    kSparse +
    "decoder_block=deepseek4 model_name=deepseek4-tiny override_model_config=true base_num_kv_heads=1 head_dim=16 q_lora_rank=8 qk_rope_head_dim=8 o_groups=2 "
    "o_lora_rank=4 sliding_window_size=4 compress_ratios=[0,4,8,4] base_num_decoder_layers=4 first_num_hash_layers=1 scan_layers=false "
    "indexer_n_heads=2 indexer_head_dim=8 indexer_topk=2 mhc_expansion_rate=2 sinkhorn_iterations=3 ";
inline const std::string kIndexed =
    kDeepseek + "use_indexer=true indexer_n_heads=2 indexer_head_dim=12 indexer_topk=3 indexer_loss_scaling_factor=0.1 "
    "indexer_sparse_training=true ";
// Wide enough for the rotary embedding to have fast, slow and in-between pairs.
inline const std::string kYarn =
    kDeepseek + "rope_type=yarn qk_rope_head_dim=32 original_max_position_embeddings=1024 rope_factor=4 beta_fast=8 ";

}  // namespace moesh::test
