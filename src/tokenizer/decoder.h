// Tokens back to text: the steps under "decoder" of a tokenizer.json.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "base/json_reader.h"
#include "tokenizer/pattern.h"
#include "tokenizer/pre_tokenizer.h"

namespace moesh::tokenizer {

struct JoinCharacters {};  // the bytes that the characters of all tokens stand for
struct JoinBytes {};       // tokens like "<0xE2>" that follow each other
struct UnmarkSpaces {
  std::string mark;
  bool drops_first;
};
struct JoinPieces {
  std::string prefix;  // of a token that goes on with a word
  bool cleans_up;      // blanks before punctuation
};
struct JoinWords {
  std::string suffix;  // of a token that ends one
};
struct Fuse {};
struct ReplaceIn {
  Pattern pattern;
  std::string content;
};
struct StripFrom {
  std::string character;
  std::size_t front, back;  // at most so many
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

  bool joins_with_spaces_ = true;  // where nothing is said of decoding
  std::vector<DecoderStep> steps_;
};

}  // namespace moesh::tokenizer
