// The map of characters in SentencePiece's models: a double array (a trie) of what is replaced, and the replacements.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moesh::tokenizer {

class Charsmap {
 public:
  // In base64, as tokenizer.json has it. A damaged one is refused with `where`.
  Charsmap(std::string_view base64, const std::string& where);

  // The replacement of a character; nothing if it stays.
  std::optional<std::string_view> replacement(std::string_view character) const;

 private:
  std::vector<std::uint32_t> units_;
  std::string replacements_;  // each followed by a zero byte
};

}  // namespace moesh::tokenizer
