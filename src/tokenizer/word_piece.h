// WordPiece, which takes the longest prefix of a word that is a token, and goes on with the rest; and WordLevel, whose tokens are whole
// words.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json_reader.h"
#include "tokenizer/vocabulary.h"
#include "tokenizer/word_cache.h"

namespace moesh::tokenizer {

class WordPiece {
 public:
  WordPiece(const Json& json, const std::string& where);

  void tokenize(std::string_view word, std::vector<Token>& tokens) const;
  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  bool add_pieces(std::string_view word, std::vector<Token>& tokens) const;
  std::uint32_t longest_piece(std::string_view word, std::uint32_t begin, std::int32_t& id) const;

  Vocabulary vocabulary_;
  std::string unknown_name_, prefix_;
  std::size_t most_characters_;  // a longer word is unknown as a whole
  std::size_t longest_ = 0;      // bytes of the longest token
};

class WordLevel {
 public:
  WordLevel(const Json& json, const std::string& where);

  void tokenize(std::string_view word, std::vector<Token>& tokens) const;
  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  Vocabulary vocabulary_;
  std::string unknown_name_;
};

}  // namespace moesh::tokenizer
