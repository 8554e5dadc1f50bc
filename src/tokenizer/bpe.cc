#include "tokenizer/bpe.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "tokenizer/byte_tokens.h"
#include "tokenizer/fields.h"
#include "tokenizer/unicode.h"

namespace moesh::tokenizer {
namespace {

constexpr std::uint64_t kFree = ~std::uint64_t{0};
constexpr std::uint32_t kEnd = 0xFFFFFFFF;
constexpr CodePoint kAscii = 128;
constexpr std::size_t kShortWord = 64;  // bytes, up to which it does not pay to look for parts

std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
}

// A pair that may be merged, by the index of its left symbol.
struct Candidate {
  Merge merge;
  std::uint32_t place;
};
// The earliest merge comes first, and the leftmost of equal ones.
bool is_later(const Candidate& a, const Candidate& b) {
  return std::pair(a.merge.rank, a.place) > std::pair(b.merge.rank, b.place);
}

std::pair<std::string, std::string> read_merge(const Json& json, const std::string& where) {
  if (json.is_array() && json.size() == 2 && json[0].is_string() && json[1].is_string()) return {json[0], json[1]};
  const std::string text = json.is_string() ? json.get<std::string>() : "";
  const std::size_t space = text.find(' ');
  if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
    refuse(fmt::format("a merge {}, which is not of two tokens", shortened(json, 60)), where);
  return {text.substr(0, space), text.substr(space + 1)};
}

}  // namespace

MergeTable::MergeTable() : slots_(1 << 10, Slot{kFree, {}}) {}

std::size_t MergeTable::place_of(std::uint64_t pair) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t place = (pair * 0x9E3779B97F4A7C15u >> 32) & mask;
  while (slots_[place].pair != pair && slots_[place].pair != kFree) place = (place + 1) & mask;
  return place;
}

const Merge* MergeTable::find(std::int32_t left, std::int32_t right) const {
  const Slot& slot = slots_[place_of(pair_of(left, right))];
  return slot.pair == kFree ? nullptr : &slot.merge;
}

void MergeTable::set(std::int32_t left, std::int32_t right, Merge merge) {
  const std::uint64_t pair = pair_of(left, right);
  Slot& slot = slots_[place_of(pair)];
  count_ += slot.pair == kFree ? 1 : 0;
  slot = {pair, merge};
  if (count_ * 2 <= slots_.size()) return;
  std::vector<Slot> before(slots_.size() * 2, Slot{kFree, {}});
  std::swap(before, slots_);
  for (const Slot& one : before) {
    if (one.pair != kFree) slots_[place_of(one.pair)] = one;
  }
}

// A token of a word, which may be merged with its neighbours.
struct Bpe::Symbol {
  std::int32_t id;  // kNone: merged into the symbol before it
  std::uint32_t begin, end;
  std::uint32_t before, next;
};

Bpe::Bpe(const Json& json, const std::string& where)
    : vocabulary_(read_vocabulary(json, where)),
      prefix_(member_or<std::string>(json, "continuing_subword_prefix", "", where)),
      suffix_(member_or<std::string>(json, "end_of_word_suffix", "", where)),
      unknown_name_(member_or<std::string>(json, "unk_token", "", where)),
      fuses_unknown_(member_or<bool>(json, "fuse_unk", false, where)),
      falls_back_to_bytes_(member_or<bool>(json, "byte_fallback", false, where)),
      ignores_merges_(member_or<bool>(json, "ignore_merges", false, where)),
      bytes_(byte_tokens(vocabulary_)) {
  const auto dropout = member_or<double>(json, "dropout", 0, where);
  if (dropout != 0)
    refuse(fmt::format("dropout {} of merges, with which a text has other tokens each time", dropout), where,
           "set it to null");
  if (!unknown_name_.empty()) unknown_ = vocabulary_.id(unknown_name_);
  read_merges(list(json, "merges", where), where);
  note_neighbours();
}

// All tokens count, even those that no merge makes, as a word that is a token may be taken as a whole.
void Bpe::note_neighbours() {
  for (std::int32_t id = 0; id < vocabulary_.end(); ++id) {
    const std::string& token = vocabulary_.token(id);
    for (std::size_t at = 0, before = 0; at < token.size(); before = at, at += code_point(token, at).bytes) {
      const CodePoint c = code_point(token, at).value;
      if (at > 0)
        neighbours_.insert(pair_of(code_point(token, before).value, c));
      else if (code_point(token, 0).bytes == token.size())
        known_.insert(c);
    }
  }
  ascii_may_join_.resize(kAscii * kAscii);
  for (CodePoint left = 0; left < kAscii; ++left) {
    for (CodePoint right = 0; right < kAscii; ++right)
      ascii_may_join_[static_cast<std::size_t>(left * kAscii + right)] = may_join(left, right);
  }
}

// Unknown characters may be fused, and the bytes of characters that are not tokens may be merged.
bool Bpe::may_join(CodePoint left, CodePoint right) const {
  return neighbours_.contains(pair_of(left, right)) || !known_.contains(left) || !known_.contains(right);
}

std::size_t Bpe::first_part(std::string_view word) const {
  if (word.size() <= kShortWord || !prefix_.empty() || !suffix_.empty()) return word.size();
  Decoded left = code_point(word, 0);
  for (std::size_t at = left.bytes; at < word.size();) {
    const Decoded right = code_point(word, at);
    const bool is_ascii = left.value < kAscii && right.value < kAscii;
    const bool joins = is_ascii ? ascii_may_join_[static_cast<std::size_t>(left.value * kAscii + right.value)]
                                : may_join(left.value, right.value);
    if (!joins) return at;
    left = right;
    at += right.bytes;
  }
  return word.size();
}

void Bpe::read_merges(const Json& json, const std::string& where) {
  const auto id_of = [&](const std::string& token, const Json& merge) {
    const std::int32_t id = vocabulary_.id(token);
    if (id == kNone)
      refuse(fmt::format("the merge {} has or makes '{}', which is no token", shortened(merge, 60),
                         shorten(token, 60)),
             where);
    return id;
  };
  std::uint32_t rank = 0;
  for (const Json& merge : json) {
    if (merge.is_string() && merge.get_ref<const std::string&>().starts_with("#version")) continue;
    const auto [left, right] = read_merge(merge, where);
    const std::int32_t left_id = id_of(left, merge), right_id = id_of(right, merge);
    const std::string made = left + (right.size() >= prefix_.size() ? right.substr(prefix_.size()) : "");
    merges_.set(left_id, right_id, {rank++, id_of(made, merge)});
  }
}

bool Bpe::add_bytes(std::string_view character, Bytes part, std::vector<Symbol>& symbols) const {
  const auto is_there = [&](char c) { return bytes_[static_cast<unsigned char>(c)] != kNone; };
  if (!falls_back_to_bytes_ || !std::all_of(character.begin(), character.end(), is_there)) return false;
  for (const char c : character) symbols.push_back({bytes_[static_cast<unsigned char>(c)], part.begin, part.end, 0, 0});
  return true;
}

std::vector<Bpe::Symbol> Bpe::symbols_of(std::string_view word) const {
  std::vector<Symbol> symbols;
  symbols.reserve(word.size());
  std::optional<Symbol> unknown;  // the last unknown character, which others may be fused with
  const auto add_unknown = [&] {
    if (unknown) symbols.push_back(*unknown);
    unknown.reset();
  };
  std::string affixed;
  for (std::uint32_t begin = 0; begin < word.size();) {
    const auto end = begin + static_cast<std::uint32_t>(code_point(word, begin).bytes);
    std::string_view character = word.substr(begin, end - begin);
    const bool has_prefix = begin > 0 && !prefix_.empty(), has_suffix = end == word.size() && !suffix_.empty();
    if (has_prefix || has_suffix) {
      affixed = (has_prefix ? prefix_ : "") + std::string(character) + (has_suffix ? suffix_ : "");
      character = affixed;
    }
    const std::int32_t id = vocabulary_.id(character);
    if (id != kNone) {
      add_unknown();
      symbols.push_back({id, begin, end, 0, 0});
    } else if (!add_bytes(character, {begin, end}, symbols) && !unknown_name_.empty()) {
      if (!fuses_unknown_) add_unknown();
      unknown = {needed_unknown(unknown_, unknown_name_), unknown ? unknown->begin : begin, end, 0, 0};
    }
    begin = end;
  }
  add_unknown();
  return symbols;
}

void Bpe::merge_all(std::vector<Symbol>& symbols) const {
  std::vector<Candidate> queue;
  const auto candidate = [&](std::uint32_t left, std::uint32_t right) {
    const Merge* merge = merges_.find(symbols[left].id, symbols[right].id);
    if (merge != nullptr) queue.push_back({*merge, left});
    return merge != nullptr;
  };
  const auto count = static_cast<std::uint32_t>(symbols.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    symbols[i].before = i == 0 ? kEnd : i - 1;
    symbols[i].next = i + 1 < count ? i + 1 : kEnd;
    if (i > 0) candidate(i - 1, i);
  }
  std::make_heap(queue.begin(), queue.end(), is_later);
  const auto push = [&](std::uint32_t left, std::uint32_t right) {
    if (candidate(left, right)) std::push_heap(queue.begin(), queue.end(), is_later);
  };
  while (!queue.empty()) {
    const Candidate best = queue.front();
    std::pop_heap(queue.begin(), queue.end(), is_later);
    queue.pop_back();
    Symbol& left = symbols[best.place];
    if (left.id == kNone || left.next == kEnd) continue;
    Symbol& right = symbols[left.next];
    // Another merge may have taken one of the two in the meantime.
    const Merge* merge = merges_.find(left.id, right.id);
    if (merge == nullptr || merge->made != best.merge.made) continue;
    left.id = best.merge.made;
    left.end = right.end;
    left.next = right.next;
    right.id = kNone;
    if (left.next != kEnd) symbols[left.next].before = best.place;
    if (left.before != kEnd) push(left.before, best.place);
    if (left.next != kEnd) push(best.place, left.next);
  }
}

void Bpe::tokenize(std::string_view word, std::vector<Token>& tokens) const {
  if (ignores_merges_) {
    const std::int32_t id = vocabulary_.id(word);
    if (id != kNone) return tokens.push_back({id, {0, static_cast<std::uint32_t>(word.size())}});
  }
  std::vector<Symbol> symbols = symbols_of(word);
  merge_all(symbols);
  for (const Symbol& symbol : symbols) {
    if (symbol.id != kNone) tokens.push_back({symbol.id, {symbol.begin, symbol.end}});
  }
}

}  // namespace moesh::tokenizer
