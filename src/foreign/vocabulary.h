// Guesses a model's vocabulary from its tokenizer's name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace moesh::foreign {

struct Vocabulary {
  std::string of;  // whose it is, for messages: "gpt2", "llama3.1-8b"
  std::int64_t words = 0;
};

// The vocabulary that goes with the name or path of a tokenizer, such as "Llama3Tokenizer" or "deepseek-ai/DeepSeek-V3".
std::optional<Vocabulary> vocabulary_of(std::string_view tokenizer);

}  // namespace moesh::foreign
