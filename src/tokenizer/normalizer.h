// Rewrites a text before it is cut into words: the steps under "normalizer" of a tokenizer.json.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json_reader.h"
#include "tokenizer/charsmap.h"
#include "tokenizer/cut.h"
#include "tokenizer/pattern.h"
#include "tokenizer/unicode.h"

namespace moesh::tokenizer {

// Replaces characters by what a function makes of them.
struct MapCharacters {
  // Returns false if the character stays; otherwise appends its replacement.
  bool (*change)(CodePoint c, std::string& to);
};
struct Strip {
  bool left, right;
};
struct Replace {
  Pattern pattern;
  std::string content;
};
struct Prepend {
  std::string text;
};
struct ByteCharacters {};

using NormalizerStep = std::variant<MapCharacters, UnicodeForm, Strip, Replace, Prepend, Charsmap, ByteCharacters>;

class Normalizer {
 public:
  Normalizer() = default;
  Normalizer(const Json& json, const std::string& where);

  bool is_empty() const { return steps_.empty(); }
  void run(Cut& cut) const;
  std::string run(std::string_view text) const;  // of valid UTF-8

 private:
  void add(const Json& json, const std::string& where);
  void add_bert(const Json& json, const std::string& where);

  std::vector<NormalizerStep> steps_;
};

}  // namespace moesh::tokenizer
