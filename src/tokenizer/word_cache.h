// The tokens of words that were tokenized before, as most words of a text have occurred in it already.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tokenizer/string_table.h"
#include "tokenizer/traced_text.h"

namespace moesh::tokenizer {

struct Token {
  std::int32_t id;
  Bytes part;  // of the word
};

class WordCache {
 public:
  std::optional<std::span<const Token>> find(std::string_view word) const;
  // Forgets all words if there are too many.
  void add(std::string_view word, std::span<const Token> tokens);

 private:
  struct Entry {
    std::size_t begin, count;
  };
  StringTable places_;
  std::vector<Entry> entries_;
  std::vector<Token> tokens_;
};

}  // namespace moesh::tokenizer
