// Parses requests to /v1/completions from untrusted JSON and checks them against what the server can do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "decode/sampling.h"
#include "decode/source.h"
#include "tokenizer/tokenizer.h"

namespace moesh::serve {

// The limits of requests, and the defaults for what they leave out.
struct Served {
  std::string name;  // name of the model
  const tokenizer::Tokenizer& tokenizer;
  decode::Bounds bounds;
  decode::Sampling sampling;
  std::optional<std::int64_t> seed;  // if there is none, each request has its own random seed
  std::int64_t slots = 0;            // most tokens of a prompt together with its text
  std::int64_t vocabulary = 0;
  std::int64_t most_tokens = 0;      // largest number of new tokens per text
  std::int64_t most_texts = 0;       // largest number of texts per request
};

struct AskedPrompt {
  std::string text;
  tokenizer::Ids ids;
  std::int64_t most_tokens = 0;  // largest number of tokens that may follow the prompt
};

struct Completion {
  std::vector<AskedPrompt> prompts;
  std::int64_t texts_each = 1;  // texts per prompt
  decode::Sampling sampling;
  std::vector<std::string> stops;
  bool ignores_end = false;  // continues after the model's end token
  bool echoes = false;       // the answer begins with the prompt
  bool streams = false;
  bool tells_usage = false;  // a stream ends with the usage

  std::size_t texts() const { return prompts.size() * static_cast<std::size_t>(texts_each); }
  std::int64_t prompt_tokens() const;
};

// Throws ApiError if the request is wrong or not supported.
Completion parse_completion(std::string_view body, const Served& served);

// Rejects the name of any other model.
void check_model(const std::string& name, const Served& served);

}  // namespace moesh::serve
