#include "tokenizer/word_piece.h"

#include <algorithm>

#include "tokenizer/unicode.h"

namespace moesh::tokenizer {
namespace {

Token unknown_word(const Vocabulary& vocabulary, const std::string& name, std::string_view word) {
  return {needed_unknown(vocabulary.id(name), name), {0, static_cast<std::uint32_t>(word.size())}};
}

}  // namespace

WordPiece::WordPiece(const Json& json, const std::string& where)
    : vocabulary_(read_vocabulary(json, where)),
      unknown_name_(member<std::string>(json, "unk_token", where)),
      prefix_(member<std::string>(json, "continuing_subword_prefix", where)),
      most_characters_(member<std::size_t>(json, "max_input_chars_per_word", where)) {
  for (std::int32_t id = 0; id < vocabulary_.end(); ++id) longest_ = std::max(longest_, vocabulary_.token(id).size());
}

// Returns where the piece ends, or `begin` if there is none.
std::uint32_t WordPiece::longest_piece(std::string_view word, std::uint32_t begin, std::int32_t& id) const {
  const std::string prefix = begin > 0 ? prefix_ : "";
  for (std::size_t end = std::min(word.size(), begin + longest_); end > begin; --end) {
    const bool cuts_a_character = end < word.size() && (word[end] & 0xC0) == 0x80;
    if (cuts_a_character) continue;
    id = vocabulary_.id(prefix + std::string(word.substr(begin, end - begin)));
    if (id != kNone) return static_cast<std::uint32_t>(end);
  }
  return begin;
}

bool WordPiece::add_pieces(std::string_view word, std::vector<Token>& tokens) const {
  for (std::uint32_t begin = 0; begin < word.size();) {
    std::int32_t id = kNone;
    const std::uint32_t end = longest_piece(word, begin, id);
    if (end == begin) return false;
    tokens.push_back({id, {begin, end}});
    begin = end;
  }
  return true;
}

void WordPiece::tokenize(std::string_view word, std::vector<Token>& tokens) const {
  const std::size_t before = tokens.size();
  if (count_code_points(word) <= most_characters_ && add_pieces(word, tokens)) return;
  tokens.resize(before);
  tokens.push_back(unknown_word(vocabulary_, unknown_name_, word));
}

WordLevel::WordLevel(const Json& json, const std::string& where)
    : vocabulary_(read_vocabulary(json, where)), unknown_name_(member<std::string>(json, "unk_token", where)) {}

void WordLevel::tokenize(std::string_view word, std::vector<Token>& tokens) const {
  const std::int32_t id = vocabulary_.id(word);
  tokens.push_back(id != kNone ? Token{id, {0, static_cast<std::uint32_t>(word.size())}}
                               : unknown_word(vocabulary_, unknown_name_, word));
}

}  // namespace moesh::tokenizer
