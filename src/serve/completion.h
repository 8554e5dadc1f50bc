// What a client asks of /v1/completions: read from JSON that may hold anything, and held to what the server can do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/settings.h"
#include "decode/sampling.h"
#include "tokenizer/tokenizer.h"

namespace moesh::serve {

// What requests are held to, and what counts where they say nothing.
struct Served {
  std::string name;  // the model's
  const tokenizer::Tokenizer& tokenizer;
  const config::Settings& settings;
  decode::Sampling sampling;
  std::optional<std::int64_t> seed;  // without one, each request has another
  std::int64_t slots = 0;            // tokens of a prompt and its text
  std::int64_t vocabulary = 0;
  std::int64_t most_tokens = 0;      // of a text
  std::int64_t most_texts = 0;       // of a request
};

struct AskedPrompt {
  std::string text;
  tokenizer::Ids ids;
  std::int64_t most_tokens = 0;  // that follow it
};

struct Completion {
  std::vector<AskedPrompt> prompts;
  std::int64_t texts_each = 1;  // of a prompt
  decode::Sampling sampling;
  std::vector<std::string> stops;
  bool ignores_end = false;  // goes on where the model ends a text
  bool echoes = false;       // the prompt belongs to the text
  bool streams = false;
  bool tells_usage = false;  // when it streams

  std::size_t texts() const { return prompts.size() * static_cast<std::size_t>(texts_each); }
  std::int64_t prompt_tokens() const;
};

// Throws ApiError.
Completion parse_completion(std::string_view body, const Served& served);

// Refuses another model's name.
void check_model(const std::string& name, const Served& served);

}  // namespace moesh::serve
