// The text of tokens that come one after the other, as far as it is certain.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "decode/generation.h"
#include "tokenizer/tokenizer.h"

namespace moesh::decode {

class TextStream {
 public:
  // What follows a prompt. `stops`: texts that end it, and do not belong to it.
  TextStream(const tokenizer::Tokenizer& tokenizer, std::span<const std::int32_t> prompt, std::vector<std::string> stops);

  // What is certain with one more token: whole characters, and nothing that may be the begin of a stop.
  std::string add(std::int32_t token);
  // What was held back, when no more tokens come.
  std::string finish();
  bool is_stopped() const { return is_stopped_; }

 private:
  std::string released(std::string more, bool is_last);

  const tokenizer::Tokenizer& tokenizer_;
  std::vector<std::string> stops_;
  std::vector<std::int32_t> ids_;   // the last ones of what was told, and those that were not
  std::size_t told_ = 0;            // of ids_
  std::string held_;                // text that may be the begin of a stop
  bool is_stopped_ = false;
};

// What a text has with its next token: what became certain of it, and whether that ends it, by one of its stops too.
struct Grown {
  std::string more;
  Ended ended = Ended::not_yet;
};
Grown grown(TextStream& stream, const Continued& next);

}  // namespace moesh::decode
