#include "config/block.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "base/error.h"

namespace moesh::config {
namespace {

constexpr std::pair<std::string_view, Block> kBlocks[] = {{"default", Block::plain},
                                                          {"llama2", Block::llama2},
                                                          {"llama4", Block::llama4},
                                                          {"mistral", Block::mistral},
                                                          {"mixtral", Block::mixtral},
                                                          {"deepseek", Block::deepseek},
                                                          {"deepseek4", Block::deepseek4},
                                                          {"qwen2", Block::qwen2},
                                                          {"qwen2_moe", Block::qwen2_moe},
                                                          {"qwen3", Block::qwen3},
                                                          {"qwen3_moe", Block::qwen3_moe},
                                                          {"qwen3_custom_moe", Block::qwen3_custom_moe},
                                                          {"qwen3_next", Block::qwen3_next},
                                                          {"qwen3_5", Block::qwen3_next},
                                                          {"gpt3", Block::gpt3},
                                                          {"gpt_oss", Block::gpt_oss},
                                                          {"gemma", Block::gemma},
                                                          {"gemma2", Block::gemma2},
                                                          {"gemma3", Block::gemma3},
                                                          {"gemma4", Block::gemma4},
                                                          {"olmo3", Block::olmo3},
                                                          {"envy", Block::envy}};

}  // namespace

Block block_of(const Settings& settings) {
  for (const auto& [word, block] : kBlocks) {
    if (word == settings.text("decoder_block")) return block;
  }
  refuse(fmt::format("decoder_block={} is not supported by moesh", settings.text("decoder_block")),
         settings.origin("decoder_block").where, "`moesh help decoder_block` lists what is");
}

bool is_one_of(Block block, std::initializer_list<Block> all) { return std::find(all.begin(), all.end(), block) != all.end(); }

bool is_deepseek(Block block) { return is_one_of(block, {Block::deepseek, Block::deepseek4}); }

bool may_share_experts(Block block) {
  return is_deepseek(block) || is_one_of(block, {Block::qwen2_moe, Block::llama4, Block::gemma4, Block::qwen3_next});
}

bool may_mix_mlps(Block block) { return is_one_of(block, {Block::qwen2_moe, Block::qwen3_moe, Block::llama4, Block::envy}); }

}  // namespace moesh::config
