#include "decode/text_stream.h"

#include <algorithm>
#include <string_view>

namespace moesh::decode {
namespace {

// Number of tokens that are decoded again together with the next ones, since a token's text may depend on those before it.
constexpr std::size_t kContext = 6;

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // what a tokenizer returns for the bytes of an incomplete character

// Whether the last character may be continued by the next token.
bool is_cut_short(std::string_view text) {
  if (text.ends_with(kReplacement)) return true;
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;
    const std::size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    return length > back;
  }
  return false;
}

// The length of the longest end of the text with which the stop begins.
std::size_t overlap(std::string_view text, std::string_view stop) {
  for (std::size_t size = std::min(text.size(), stop.size() - 1); size > 0; --size) {
    if (text.ends_with(stop.substr(0, size))) return size;
  }
  return 0;
}

}  // namespace

TextStream::TextStream(const tokenizer::Tokenizer& tokenizer, std::span<const std::int32_t> prompt, std::vector<std::string> stops)
    : tokenizer_(tokenizer), stops_(std::move(stops)) {
  std::erase(stops_, "");
  const std::size_t first = prompt.size() - std::min(prompt.size(), kContext);
  ids_.assign(prompt.begin() + static_cast<std::ptrdiff_t>(first), prompt.end());
  told_ = ids_.size();
}

std::string TextStream::add(std::int32_t token) {
  // A model's vocabulary may be larger than its tokenizer's.
  if (is_stopped_ || token >= tokenizer_.size()) return "";
  ids_.push_back(token);
  const auto text_of = [&](std::size_t count) {
    return tokenizer_.decode(std::span(ids_).first(count), tokenizer::Special::left_out);
  };
  const std::string before = text_of(told_), all = text_of(ids_.size());
  if (is_cut_short(all) || all.size() < before.size()) return "";
  ids_.erase(ids_.begin(), ids_.end() - static_cast<std::ptrdiff_t>(std::min(ids_.size(), kContext)));
  told_ = ids_.size();
  return released(all.substr(before.size()), false);
}

std::string TextStream::finish() {
  if (is_stopped_) return "";
  const std::string before = tokenizer_.decode(std::span(ids_).first(told_), tokenizer::Special::left_out);
  const std::string all = tokenizer_.decode(ids_, tokenizer::Special::left_out);
  told_ = ids_.size();
  return released(all.size() > before.size() ? all.substr(before.size()) : "", true);
}

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
