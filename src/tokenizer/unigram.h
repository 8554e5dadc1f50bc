// The unigram model: of all ways to cut a word into tokens, the one with the highest sum of scores.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json_reader.h"
#include "tokenizer/trie.h"
#include "tokenizer/vocabulary.h"
#include "tokenizer/word_cache.h"

namespace moesh::tokenizer {

class Unigram {
 public:
  Unigram(const Json& json, const std::string& where);

  void tokenize(std::string_view word, std::vector<Token>& tokens) const;
  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  struct Step;
  std::vector<Step> best_steps(std::string_view word) const;
  void add_unknown(std::string_view word, Bytes part, std::vector<Token>& tokens) const;

  std::vector<double> scores_;  // by id
  Vocabulary vocabulary_;
  Trie trie_;
  std::int32_t unknown_ = kNone;
  double unknown_score_ = 0;
  bool falls_back_to_bytes_;
  std::vector<std::int32_t> bytes_;
};

}  // namespace moesh::tokenizer
