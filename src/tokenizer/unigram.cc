#include "tokenizer/unigram.h"

#include <algorithm>

#include <fmt/core.h>

#include "tokenizer/byte_tokens.h"
#include "tokenizer/fields.h"
#include "tokenizer/unicode.h"

namespace moesh::tokenizer {
namespace {

constexpr double kUnknownPenalty = 10;  // below the lowest score
constexpr std::uint32_t kNowhere = 0xFFFFFFFF;

double score_of(const Json& entry, const std::string& where) {
  if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
    refuse(fmt::format("an entry {} of 'vocab', which is no token with its score", shortened(entry, 60)), where);
  return entry[1].get<double>();
}

std::vector<double> read_scores(const Json& vocab, const std::string& where) {
  std::vector<double> scores;
  for (const Json& entry : vocab) scores.push_back(score_of(entry, where));
  if (scores.empty()) refuse("'vocab' is empty", where);
  return scores;
}

// A token may be in the list twice: encoding uses the later id, and the earlier one only decodes.
Vocabulary read_tokens(const Json& vocab, const std::string& where) {
  Vocabulary made;
  std::int64_t id = 0;
  for (const Json& entry : vocab) made.add(entry[0].get_ref<const std::string&>(), id++, where);
  return made;
}

std::vector<Trie::Entry> entries_of(const Json& vocab) {
  std::vector<Trie::Entry> entries;
  std::int32_t id = 0;
  for (const Json& entry : vocab) entries.push_back({entry[0].get_ref<const std::string&>(), id++});
  return entries;
}

}  // namespace

// The best way to a place in the word: its last token, and where that token begins.
struct Unigram::Step {
  double score = 0;
  std::uint32_t begin = kNowhere;
  std::int32_t token = kNone;
};

Unigram::Unigram(const Json& json, const std::string& where)
    : scores_(read_scores(list(json, "vocab", where), where)),
      vocabulary_(read_tokens(json["vocab"], where)),
      trie_(entries_of(json["vocab"])),
      falls_back_to_bytes_(member_or<bool>(json, "byte_fallback", false, where)),
      bytes_(byte_tokens(vocabulary_)) {
  const auto unknown = member_or<std::int64_t>(json, "unk_id", kNone, where);
  if (unknown != kNone && !vocabulary_.has(unknown))
    refuse(fmt::format("'unk_id' is {}, the vocabulary has {}", unknown, counted(vocabulary_.end(), "token")), where);
  unknown_ = static_cast<std::int32_t>(unknown);
  unknown_score_ = *std::min_element(scores_.begin(), scores_.end()) - kUnknownPenalty;
}

std::vector<Unigram::Step> Unigram::best_steps(std::string_view word) const {
  std::vector<Step> best(word.size() + 1);
  const auto offer = [&](std::size_t begin, std::size_t end, double score, std::int32_t token) {
    Step& step = best[end];
    const double sum = score + best[begin].score;
    if (step.begin == kNowhere || sum > step.score) step = {sum, static_cast<std::uint32_t>(begin), token};
  };
  for (std::size_t begin = 0; begin < word.size();) {
    const std::size_t character = code_point(word, begin).bytes;
    bool has_character = false;
    trie_.each_prefix(word.substr(begin), [&](std::size_t length, std::int32_t token) {
      offer(begin, begin + length, scores_[static_cast<std::size_t>(token)], token);
      has_character = has_character || length == character;
    });
    if (!has_character) offer(begin, begin + character, unknown_score_, needed_unknown(unknown_, "unk_id"));
    begin += character;
  }
  return best;
}

// Unknown text may still be a token as a whole; otherwise its bytes may be tokens.
void Unigram::add_unknown(std::string_view word, Bytes part, std::vector<Token>& tokens) const {
  const std::string_view text = word.substr(part.begin, part.end - part.begin);
  const std::int32_t whole = vocabulary_.id(text);
  const auto byte = [&](char c) { return bytes_[static_cast<unsigned char>(c)]; };
  const bool has_bytes = std::all_of(text.begin(), text.end(), [&](char c) { return byte(c) != kNone; });
  if (whole != kNone || !falls_back_to_bytes_ || !has_bytes) {
    tokens.push_back({whole != kNone ? whole : unknown_, part});
    return;
  }
  for (const char c : text) tokens.push_back({byte(c), part});
}

void Unigram::tokenize(std::string_view word, std::vector<Token>& tokens) const {
  const std::vector<Step> best = best_steps(word);
  std::vector<Token> backwards;
  for (auto end = static_cast<std::uint32_t>(word.size()); end > 0; end = best[end].begin) {
    const Step& step = best[end];
    const bool goes_on = step.token == unknown_ && !backwards.empty() && backwards.back().id == unknown_;
    if (goes_on)
      backwards.back().part.begin = step.begin;
    else
      backwards.push_back({step.token, {step.begin, end}});
  }
  for (auto token = backwards.rbegin(); token != backwards.rend(); ++token) {
    if (token->id == unknown_)
      add_unknown(word, token->part, tokens);
    else
      tokens.push_back(*token);
  }
}

}  // namespace moesh::tokenizer
