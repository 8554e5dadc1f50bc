// A preset of every family, for what is asked of all of them.
#pragma once

#include <string>
#include <utility>

namespace moesh::test {

inline const std::pair<std::string, std::string> kPresetOfBlock[] = {
    {"default", "default decoder_block=default"},
    {"llama2", "llama2-7b"},
    {"llama4", "llama4-17b-16e"},
    {"mistral", "mistral-7b"},
    {"mixtral", "mixtral-8x7b"},
    {"deepseek", "deepseek2-16b"},
    {"deepseek4", "deepseek4-tiny"},
    {"qwen2", "qwen2.5-7b"},
    {"qwen2_moe", "qwen3-30b-a3b decoder_block=qwen2_moe"},
    {"qwen3", "qwen3-0.6b"},
    {"qwen3_moe", "qwen3-30b-a3b"},
    {"qwen3_custom_moe", "qwen3-custom-30b-a3b"},
    {"qwen3_next", "qwen3-next-80b-a3b"},
    {"qwen3_5", "qwen3.5-35b-a3b"},
    {"gpt3", "gpt3-6b"},
    {"gpt_oss", "gpt-oss-20b"},
    {"gemma", "gemma-7b"},
    {"gemma2", "gemma2-9b"},
    {"gemma3", "gemma3-4b"},
    {"gemma4", "gemma4-26b"},
    {"olmo3", "olmo3-7b"},
    {"envy", "envy-test"},
};

inline std::string request_of(const std::string& preset) { return "override_model_config=true model_name=" + preset + " "; }

}  // namespace moesh::test
