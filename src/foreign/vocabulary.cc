#include "foreign/vocabulary.h"

#include <algorithm>

#include "base/text.h"
#include "config/load.h"

namespace moesh::foreign {
namespace {

struct Known {
  std::string_view name;    // in small letters, without - _ and .
  std::string_view preset;  // a model with this tokenizer; none for GPT-2's
};

// The first that occurs in a tokenizer's name counts.
constexpr Known kKnown[] = {{"gpt2", ""},
                            {"deepseekv2", "deepseek2-236b"},
                            {"deepseekv3", "deepseek3-671b"},
                            {"deepseekr1", "deepseek3-671b"},
                            {"moonlight", "kimi-k2-1t"},
                            {"kimik2", "kimi-k2-1t"},
                            {"llama2", "llama2-7b"},
                            {"llama3", "llama3.1-8b"},
                            {"llama4", "llama4-17b-16e"},
                            {"mixtral8x22b", "mixtral-8x22b"},
                            {"mixtral", "mixtral-8x7b"},
                            {"mistral7b", "mistral-7b"},
                            {"qwen3", "qwen3-8b"},
                            {"qwen2515b", "qwen2.5-1.5b"},
                            {"qwen25", "qwen2.5-7b"},
                            {"gptoss", "gpt-oss-20b"},
                            {"gemma2", "gemma2-9b"},
                            {"gemma3", "gemma3-12b"},
                            {"gemma4", "gemma4-31b"},
                            {"olmo3", "olmo3-7b"}};

constexpr std::int64_t kWordsOfGpt2 = 50257;

}  // namespace

std::optional<Vocabulary> vocabulary_of(std::string_view tokenizer) {
  std::string name = lower(tokenizer);
  std::erase_if(name, [](char c) { return c == '-' || c == '_' || c == '.'; });
  const auto found =
      std::find_if(std::begin(kKnown), std::end(kKnown), [&](const Known& one) { return name.find(one.name) != std::string::npos; });
  if (found == std::end(kKnown)) return std::nullopt;
  if (found->preset.empty()) return Vocabulary{"gpt2", kWordsOfGpt2};
  const std::string preset(found->preset);
  return Vocabulary{preset, config::load({"model_name=" + preset}).settings.integer("vocab_size")};
}

}  // namespace moesh::foreign
