// Tokens back to text: the steps under "decoder" of a tokenizer.json.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "base/json_reader.h"
#include "tokenizer/pattern.h"
#include "tokenizer/pre_tokenizer.h"

namespace moesh::tokenizer {

struct JoinCharacters {};  // to the bytes that the characters of all tokens stand for
struct JoinBytes {};       // consecutive tokens like "<0xE2>"
struct UnmarkSpaces {
  std::string mark;
  bool drops_first;
};
struct JoinPieces {
  std::string prefix;  // of a token that continues a word
  bool cleans_up;      // removes blanks before punctuation
};
struct JoinWords {
  std::string suffix;  // of a token that ends a word
};
struct Fuse {};
struct ReplaceIn {
  Pattern pattern;
  std::string content;
};
struct StripFrom {
  std::string character;
  std::size_t front, back;  // at most this many are removed
};

using DecoderStep =
    std::variant<JoinCharacters, JoinBytes, UnmarkSpaces, JoinPieces, JoinWords, Fuse, ReplaceIn, StripFrom>;

class Decoder {
 public:
  Decoder() = default;
  Decoder(const Json& json, const std::string& where);

  std::string run(std::vector<std::string> tokens) const;

 private:
  void add(const Json& json, const std::string& where);

  bool joins_with_spaces_ = true;  // unless the file describes a decoder
  std::vector<DecoderStep> steps_;
};

}  // namespace moesh::tokenizer
