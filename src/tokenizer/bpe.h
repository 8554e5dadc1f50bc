// Byte pair encoding: the characters of a word, merged pair by pair in the order that was learned.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/json_reader.h"
#include "tokenizer/unicode.h"
#include "tokenizer/vocabulary.h"
#include "tokenizer/word_cache.h"

namespace moesh::tokenizer {

// What two adjacent tokens are merged to, and how early.
struct Merge {
  std::uint32_t rank;
  std::int32_t made;
};

class MergeTable {
 public:
  MergeTable();

  // Null if the two are not merged.
  const Merge* find(std::int32_t left, std::int32_t right) const;
  void set(std::int32_t left, std::int32_t right, Merge merge);

 private:
  struct Slot {
    std::uint64_t pair;
    Merge merge;
  };
  std::size_t place_of(std::uint64_t pair) const;

  std::vector<Slot> slots_;
  std::size_t count_ = 0;
};

class Bpe {
 public:
  Bpe(const Json& json, const std::string& where);

  void tokenize(std::string_view word, std::vector<Token>& tokens) const;
  const Vocabulary& vocabulary() const { return vocabulary_; }

  // The end of the first part of the word, chosen so that no token crosses it: the parts together have the tokens of the word.
  std::size_t first_part(std::string_view word) const;

 private:
  struct Symbol;
  void note_neighbours();
  bool may_join(CodePoint left, CodePoint right) const;
  void read_merges(const Json& json, const std::string& where);
  std::vector<Symbol> symbols_of(std::string_view word) const;
  bool add_bytes(std::string_view character, Bytes part, std::vector<Symbol>& symbols) const;
  void merge_all(std::vector<Symbol>& symbols) const;

  Vocabulary vocabulary_;
  MergeTable merges_;
  std::string prefix_, suffix_;  // added to a character that is not the first of its word, and to one that is the last
  std::string unknown_name_;
  std::int32_t unknown_ = kNone;
  bool fuses_unknown_, falls_back_to_bytes_, ignores_merges_;
  std::vector<std::int32_t> bytes_;               // the tokens "<0x00>" and so on
  std::unordered_set<std::uint64_t> neighbours_;  // characters that are adjacent in some token
  std::unordered_set<CodePoint> known_;           // characters that are tokens
  std::vector<bool> ascii_may_join_;              // may_join() for ASCII, by 128 * left + right
};

}  // namespace moesh::tokenizer
