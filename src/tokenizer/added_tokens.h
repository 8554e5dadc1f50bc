// Tokens besides a model's own, which are found in a text before anything else is done with it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/json_reader.h"
#include "tokenizer/cut.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/trie.h"
#include "tokenizer/vocabulary.h"

namespace moesh::tokenizer {

struct AddedToken {
  std::string content;
  std::string written;           // what is searched for and what decoders are given: the content, normalised if the text is
  bool is_single_word;           // not found within a longer word
  bool takes_left, takes_right;  // includes the blanks on that side
  bool is_normalized;            // searched for in the normalised text
  bool is_special;
};

class AddedTokens {
 public:
  // `json`: the list "added_tokens". A token that the model has too keeps the model's id; the others get the ids after the model's.
  AddedTokens(const Json& json, const Vocabulary& model, const Normalizer& normalizer, const std::string& where);

  void cut_plain(Cut& cut) const;       // at tokens that are searched for in the text as it is
  void cut_normalized(Cut& cut) const;  // at the others

  const AddedToken* find(std::int32_t id) const;
  std::int32_t id(std::string_view content) const;  // kNone: there is no such token
  bool is_special(std::string_view content) const;
  std::int64_t end() const { return tokens_.empty() ? 0 : tokens_.rbegin()->first + 1; }  // one more than the largest id

 private:
  void cut_at(const Trie& trie, Cut& cut) const;
  template <typename Add>
  void add_pieces(const Trie& trie, const TracedText& text, Bytes part, Add add) const;

  std::map<std::int32_t, AddedToken> tokens_;
  std::map<std::string, std::int32_t, std::less<>> ids_;
  std::optional<Trie> plain_, normalized_;
  std::optional<Regex> word_;
};

}  // namespace moesh::tokenizer
