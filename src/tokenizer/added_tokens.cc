#include "tokenizer/added_tokens.h"

#include <algorithm>

#include "base/log.h"
#include "tokenizer/fields.h"
#include "tokenizer/regex_syntax.h"
#include "tokenizer/unicode.h"

namespace moesh::tokenizer {
namespace {

AddedToken read_token(const Json& json, const Normalizer& normalizer, const std::string& where) {
  AddedToken token{member<std::string>(json, "content", where), "",
                   member<bool>(json, "single_word", where),    member<bool>(json, "lstrip", where),
                   member<bool>(json, "rstrip", where),         member<bool>(json, "normalized", where),
                   member<bool>(json, "special", where)};
  token.written = token.is_normalized ? normalizer.run(token.content) : token.content;
  return token;
}

std::size_t last_character(std::string_view text) {
  std::size_t at = text.size() - 1;
  while ((text[at] & 0xC0) == 0x80) --at;
  return at;
}

std::size_t without_blanks_behind(std::string_view text) {
  std::size_t end = text.size();
  while (end > 0) {
    const std::size_t last = last_character(text.substr(0, end));
    if (!is_white_space(code_point(text, last).value)) break;
    end = last;
  }
  return end;
}

std::size_t blanks_in_front(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size() && is_white_space(code_point(text, at).value)) at += code_point(text, at).bytes;
  return at;
}

// Whether a character next to either end of a part is a letter of a word.
bool is_within_word(const Regex& word, std::string_view text, std::size_t begin, std::size_t end) {
  Regex::Matcher matcher(word);
  const auto is_word = [&](std::size_t at) {
    matcher.begin(text.substr(at, code_point(text, at).bytes));
    return matcher.next().has_value();
  };
  return (begin > 0 && is_word(last_character(text.substr(0, begin)))) || (end < text.size() && is_word(end));
}

}  // namespace

AddedTokens::AddedTokens(const Json& json, const Vocabulary& model, const Normalizer& normalizer,
                         const std::string& where) {
  if (!json.is_array()) refuse("'added_tokens' is no list", where);
  std::int64_t next = model.count();
  bool has_told = false;
  for (const Json& one : json) {
    AddedToken token = read_token(one, normalizer, where);
    if (token.content.empty()) continue;
    const auto known = ids_.find(token.content);
    std::int64_t id = known != ids_.end() ? known->second : model.id(token.content);
    if (id == kNone) id = next++;
    const auto written = member<std::int64_t>(one, "id", where);
    if (written != id && !has_told) {
      log_warning(fmt::format("{}: token '{}' has id {}, which the file says is {}", where, shorten(token.content, 60),
                              id, written));
      has_told = true;
    }
    ids_[token.content] = static_cast<std::int32_t>(id);
    tokens_[static_cast<std::int32_t>(id)] = std::move(token);
  }
  std::vector<Trie::Entry> plain, normalized;
  for (const auto& [id, token] : tokens_) {
    if (token.is_single_word && !word_) word_.emplace(fmt::format("[{}]", kRustWordCharacters), where);
    if (!token.written.empty()) (token.is_normalized ? normalized : plain).push_back({token.written, id});
  }
  if (!plain.empty()) plain_.emplace(std::move(plain));
  if (!normalized.empty()) normalized_.emplace(std::move(normalized));
}

template <typename Add>
void AddedTokens::add_pieces(const Trie& trie, const TracedText& whole, Bytes part, Add add) const {
  const std::string_view text = whole.text(part);
  const auto piece = [&](std::size_t begin, std::size_t end) {
    return Bytes{part.begin + static_cast<std::uint32_t>(begin), part.begin + static_cast<std::uint32_t>(end)};
  };
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t length = 0;
    std::int32_t id = kNone;
    if (trie.has_any_from(static_cast<unsigned char>(text[at]))) {
      trie.each_prefix(text.substr(at), [&](std::size_t found, std::int32_t value) {
        length = found;
        id = value;
      });
    }
    if (id == kNone) {
      ++at;
      continue;
    }
    std::size_t begin = at, end = at + length;
    at = end;
    const AddedToken& token = tokens_.at(id);
    if (token.is_single_word && is_within_word(*word_, text, begin, end)) continue;
    if (token.takes_left) begin = std::max(done, without_blanks_behind(text.substr(0, begin)));
    if (token.takes_right) end += blanks_in_front(text.substr(end));
    if (done < begin) add({piece(done, begin)});
    add({piece(begin, end), id});
    done = end;
  }
  if (done < text.size()) add({piece(done, text.size())});
}

void AddedTokens::cut_at(const Trie& trie, Cut& cut) const {
  cut_further(cut, [&](Bytes part, const auto& add) { add_pieces(trie, cut.text, part, add); });
}

void AddedTokens::cut_plain(Cut& cut) const {
  if (plain_) cut_at(*plain_, cut);
}

void AddedTokens::cut_normalized(Cut& cut) const {
  if (normalized_) cut_at(*normalized_, cut);
}

const AddedToken* AddedTokens::find(std::int32_t id) const {
  const auto found = tokens_.find(id);
  return found == tokens_.end() ? nullptr : &found->second;
}

std::int32_t AddedTokens::id(std::string_view content) const {
  const auto found = ids_.find(content);
  return found == ids_.end() ? kNone : found->second;
}

bool AddedTokens::is_special(std::string_view content) const {
  const auto found = ids_.find(content);
  return found != ids_.end() && tokens_.at(found->second).is_special;
}

}  // namespace moesh::tokenizer
