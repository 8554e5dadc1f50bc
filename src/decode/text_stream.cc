#include "decode/text_stream.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

namespace moesh::decode {
namespace {

// Tokens that are decoded again together with the next ones, since a token's text may depend on those before it.
constexpr std::size_t kContext = 12;

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // what a tokenizer returns for the bytes of an incomplete character

bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Whether the last character may be continued by the next token.
bool is_cut_short(std::string_view text) {
  if (text.ends_with(kReplacement)) return true;
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const char last = text[text.size() - back];
    if (continues(last)) continue;
    const auto byte = static_cast<unsigned char>(last);
    const std::size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    return length > back;
  }
  return false;
}

// The length of the text, in whole characters, with which both begin.
std::size_t shared_length(std::string_view a, std::string_view b) {
  const auto end = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
  auto length = static_cast<std::size_t>(end - a.begin());
  while (length > 0 && length < a.size() && continues(a[length])) --length;
  return length;
}

// The length of the longest end of the text with which the stop begins.
std::size_t overlap(std::string_view text, std::string_view stop) {
  for (std::size_t size = std::min(text.size(), stop.size() - 1); size > 0; --size) {
    if (text.ends_with(stop.substr(0, size))) return size;
  }
  return 0;
}

}  // namespace

std::vector<std::int32_t> with_text(const tokenizer::Tokenizer& tokenizer, std::span<const std::int32_t> tokens) {
  std::vector<std::int32_t> kept;
  std::copy_if(tokens.begin(), tokens.end(), std::back_inserter(kept), [&](std::int32_t token) { return tokenizer.has(token); });
  return kept;
}

TextStream::TextStream(const tokenizer::Tokenizer& tokenizer, std::span<const std::int32_t> prompt, std::vector<std::string> stops)
    : tokenizer_(tokenizer), stops_(std::move(stops)), ids_(with_text(tokenizer, prompt)) {
  std::erase(stops_, "");
  shown_ = text_of(ids_);
  forget();
}

std::string TextStream::text_of(std::span<const std::int32_t> ids) const { return tokenizer_.decode(ids, tokenizer::Special::left_out); }

// A character that the last tokens have begun is missing in the text of fewer tokens, and what they all begin with stays.
std::size_t TextStream::certain_length(std::string_view all) const {
  std::size_t length = all.size();
  for (std::size_t open = 1; is_cut_short(all) && open <= std::min(kMostOpen, ids_.size()); ++open)
    length = std::min(length, shared_length(all, text_of(std::span(ids_).first(ids_.size() - open))));
  return length;
}

std::string TextStream::add(std::int32_t token) {
  if (is_stopped_ || !tokenizer_.has(token)) return "";
  ids_.push_back(token);
  std::string all = text_of(ids_), more;
  // Some tokenizers make U+FFFD of all bytes in a row if one is bad. Text that was shown cannot be taken back, so the row is cut.
  if (!all.starts_with(shown_)) {
    more = std::move(open_);
    shown_.clear();
    ids_ = {token};
    all = text_of(ids_);
  }
  const std::size_t certain = std::max(certain_length(all), shown_.size());
  more += all.substr(shown_.size(), certain - shown_.size());
  shown_ = all.substr(0, certain);
  open_ = all.substr(certain);
  forget();
  return released(std::move(more), false);
}

// The texts of the tokens from `begin` on: of all of them, and of all but the last ones, where a character may be cut short.
TextStream::Texts TextStream::texts_from(std::size_t begin) const {
  Texts texts;
  for (std::size_t open = 0; open < texts.size(); ++open) texts[open] = text_of(std::span(ids_).first(ids_.size() - open).subspan(begin));
  return texts;
}

// Leaves out tokens on which later ones do not depend, so that a token costs as much in a long text as in a short one. A row of bytes is
// not cut in the middle of a character, as long as there is a choice.
void TextStream::forget() {
  if (ids_.size() <= 2 * kContext) return;
  const Texts whole = texts_from(0);
  const auto is_same_from = [&](std::size_t begin) {
    const Texts texts = texts_from(begin);
    return std::equal(texts.begin(), texts.end(), whole.begin(), [](const auto& text, const auto& of) { return of.ends_with(text); });
  };
  const std::size_t first = ids_.size() - kContext, end = first + kContext / 2;
  std::size_t begin = first;
  while (begin < end && !is_same_from(begin)) ++begin;
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(begin < end ? begin : first));
  shown_ = text_of(ids_);
  shown_.resize(shown_.size() - std::min(shown_.size(), open_.size()));
}

std::string TextStream::finish() { return is_stopped_ ? "" : released(std::exchange(open_, ""), true); }

std::string TextStream::released(std::string more, bool is_last) {
  std::string text = std::move(held_) + more;
  held_.clear();
  std::size_t end = std::string::npos, held = 0;
  for (const std::string& stop : stops_) {
    end = std::min(end, text.find(stop));
    held = std::max(held, overlap(text, stop));
  }
  is_stopped_ = end != std::string::npos;
  if (is_stopped_) return text.substr(0, end);
  if (is_last) return text;
  held_ = text.substr(text.size() - held);
  text.resize(text.size() - held);
  return text;
}

// A stop token's own text is not part of the text.
Grown grown(TextStream& stream, const Continued& next) {
  Grown made{next.ended == Ended::by_stop ? "" : stream.add(next.token), next.ended};
  if (stream.is_stopped()) made.ended = Ended::by_stop;
  if (made.ended != Ended::not_yet) made.more += stream.finish();
  return made;
}

}  // namespace moesh::decode
