// What texts are cut at, or what is replaced in them: an expression, a string, or a kind of character.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json_reader.h"
#include "tokenizer/regex.h"
#include "tokenizer/traced_text.h"
#include "tokenizer/unicode.h"

namespace moesh::tokenizer {

using CharacterTest = bool (*)(CodePoint);
using Pattern = std::variant<Regex, std::string, CharacterTest>;

// {"Regex": ...} or {"String": ...}.
Pattern read_pattern(const Json& json, const std::string& where);

// Finds a pattern in one text after another.
class Finder {
 public:
  explicit Finder(const Pattern& pattern);

  struct Match {
    Bytes part;
    bool is_match;
  };
  // The whole text in order, as parts that match and parts that do not; valid until the next call.
  const std::vector<Match>& find(std::string_view text);

 private:
  void add(std::size_t begin, std::size_t end, bool is_match);
  void find_all(Regex::Matcher& matcher, std::string_view text);
  void find_all(const std::string& string, std::string_view text);
  void find_all(CharacterTest test, std::string_view text);

  std::variant<Regex::Matcher, std::string, CharacterTest> pattern_;
  std::vector<Match> found_;
};

}  // namespace moesh::tokenizer
