// Decodes tokens to text as they come, and returns text only once later tokens cannot change it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "decode/generation.h"
#include "tokenizer/tokenizer.h"

namespace moesh::decode {

// The tokens that the tokenizer has: a model's vocabulary may be larger, and then some of its tokens have no text.
std::vector<std::int32_t> with_text(const tokenizer::Tokenizer& tokenizer, std::span<const std::int32_t> tokens);

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
  static constexpr std::size_t kMostOpen = 3;  // tokens that a character cut short may have, as it lacks one of at most four bytes
  using Texts = std::array<std::string, kMostOpen + 1>;

  std::string text_of(std::span<const std::int32_t> ids) const;
  std::size_t certain_length(std::string_view all) const;
  Texts texts_from(std::size_t begin) const;
  void forget();
  std::string released(std::string more, bool is_last);

  const tokenizer::Tokenizer& tokenizer_;
  std::vector<std::string> stops_;
  std::vector<std::int32_t> ids_;  // the last tokens
  std::string shown_, open_;       // their text: what has become certain, and what the next token may change
  std::string held_;               // certain text that may be the beginning of a stop
  bool is_stopped_ = false;
};

// What the next token adds to a text: the text that has become certain, and whether the text ends, also by one of its stops.
struct Grown {
  std::string more;
  Ended ended = Ended::not_yet;
};
Grown grown(TextStream& stream, const Continued& next);

}  // namespace moesh::decode
