// Decodes tokens to text as they come, and returns text only once later tokens cannot change it.
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
  // The stream of the text that follows a prompt. A text in `stops` ends the stream and is not part of it.
  TextStream(const tokenizer::Tokenizer& tokenizer, std::span<const std::int32_t> prompt, std::vector<std::string> stops);

  // The text that has become certain with one more token: whole characters, and nothing that may be the beginning of a stop.
  std::string add(std::int32_t token);
  // The text that was held back; called when no more tokens come.
  std::string finish();
  bool is_stopped() const { return is_stopped_; }

 private:
  std::string released(std::string more, bool is_last);

  const tokenizer::Tokenizer& tokenizer_;
  std::vector<std::string> stops_;
  std::vector<std::int32_t> ids_;   // the last tokens whose text was returned, then those whose text was not
  std::size_t told_ = 0;            // how many of ids_ have had their text returned
  std::string held_;                // text that may be the beginning of a stop
  bool is_stopped_ = false;
};

// What the next token adds to a text: the text that has become certain, and whether the text ends, also by one of its stops.
struct Grown {
  std::string more;
  Ended ended = Ended::not_yet;
};
Grown grown(TextStream& stream, const Continued& next);

}  // namespace moesh::decode
