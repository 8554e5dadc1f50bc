// Small models of every family in bfloat16, so that keys about number formats can matter; keys that follow win.
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
                                   "base_num_decoder_layers=4 inhomogeneous_layer_cycle_interval=2 ";
inline const std::string kDeepseek =
    kLlama +
    "decoder_block=deepseek model_name=deepseek3-tiny override_model_config=true attention_type=mla q_lora_rank=8 "
    "kv_lora_rank=8 "
    "qk_nope_head_dim=8 qk_rope_head_dim=8 v_head_dim=8 first_num_dense_layers=1 num_experts=4 num_experts_per_tok=2 "
    "base_moe_mlp_dim=24 rope_type=default ";
// Wide enough for its rotation to have fast, slow and in-between pairs.
inline const std::string kYarn =
    kDeepseek + "rope_type=yarn qk_rope_head_dim=32 original_max_position_embeddings=1024 rope_factor=4 beta_fast=8 ";

}  // namespace moesh::test
