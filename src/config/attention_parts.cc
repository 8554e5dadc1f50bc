#include "config/attention_parts.h"

#include "config/model_shape.h"

namespace moesh::config {
namespace {

// Gemma 3, Gemma 4 and Qwen3-Next have norms whatever the key says.
bool may_have_bias(const Settings& settings) {
  return !is_one_of(block_of(settings), {Block::gpt3, Block::qwen3_next, Block::deepseek4}) && !has_latent_attention(settings);
}
bool may_have_norms(const Settings& settings) {
  const bool has_none = is_one_of(block_of(settings), {Block::plain, Block::gpt3, Block::gemma, Block::gemma2, Block::deepseek4});
  const bool has_always = is_one_of(block_of(settings), {Block::gemma3, Block::gemma4, Block::qwen3_next});
  return !has_none && !has_always && !has_latent_attention(settings);
}

bool heeds_bias(Block block) { return is_one_of(block, {Block::gpt_oss, Block::olmo3, Block::qwen2, Block::qwen2_moe}); }
bool heeds_norms(Block block) {
  return is_one_of(block, {Block::envy, Block::llama4, Block::olmo3, Block::qwen2, Block::qwen2_moe, Block::qwen3, Block::qwen3_moe,
                           Block::qwen3_custom_moe});
}

constexpr const char* kAnywhere = "bias_and_norm_anywhere";

}  // namespace

bool takes_attention_bias(const Settings& settings) {
  return may_have_bias(settings) && (heeds_bias(block_of(settings)) || settings.boolean(kAnywhere));
}

bool takes_head_norms(const Settings& settings) {
  return may_have_norms(settings) && (heeds_norms(block_of(settings)) || settings.boolean(kAnywhere));
}

bool asks_for_parts_anywhere(const Settings& settings) {
  const Block block = block_of(settings);
  const bool asks_for_bias = settings.boolean("attention_bias") && may_have_bias(settings) && !heeds_bias(block);
  return asks_for_bias || (settings.boolean("use_qk_norm") && may_have_norms(settings) && !heeds_norms(block));
}

bool has_own_scale(Block block) {
  return is_one_of(block, {Block::qwen2, Block::qwen3, Block::qwen3_moe, Block::qwen3_custom_moe, Block::gpt3, Block::gpt_oss,
                           Block::llama4, Block::gemma3, Block::olmo3, Block::envy, Block::qwen3_next});
}

bool sizes_queries_by_norm(const Settings& settings) {
  return !has_own_scale(block_of(settings)) && !has_latent_attention(settings) && settings.real("attention_score_scale") < 0;
}

}  // namespace moesh::config
