// The map of characters that SentencePiece's models carry: a double array of what is replaced, and the replacements.
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

  // What stands for the character; nothing where it stays.
  std::optional<std::string_view> replacement(std::string_view character) const;

 private:
  std::vector<std::uint32_t> units_;
  std::string replacements_;  // each with a zero behind it
};

}  // namespace moesh::tokenizer
