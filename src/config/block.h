// The family of a model's layers: decoder_block.
#pragma once

#include <initializer_list>

#include "config/settings.h"

namespace moesh::config {

enum class Block {
  plain,  // MaxText's own block, named `default`
  llama2,
  llama4,
  mistral,
  mixtral,
  deepseek,
  deepseek4,
  qwen2,
  qwen2_moe,
  qwen3,
  qwen3_moe,
  qwen3_custom_moe,
  qwen3_next,  // and Qwen3.5, whose text layers are the same
  gpt3,
  gpt_oss,
  gemma,
  gemma2,
  gemma3,
  gemma4,
  olmo3,
  envy
};

Block block_of(const Settings& settings);

bool is_one_of(Block block, std::initializer_list<Block> all);
bool is_deepseek(Block block);        // of any generation
bool may_share_experts(Block block);  // whether layers heed shared_experts
bool may_mix_mlps(Block block);       // whether some layers may have experts and others a dense MLP, as layer_mlp says

}  // namespace moesh::config
