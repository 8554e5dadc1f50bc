#include "tokenizer/traced_text.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"
#include "tokenizer/unicode.h"

namespace moesh::tokenizer {
namespace {

std::size_t checked_size(std::size_t bytes) {
  if (bytes <= kMostTextBytes) return bytes;
  refuse(fmt::format("a text of {} bytes, or that grows to them, at most {} are tokenized at once",
                     with_commas(static_cast<std::int64_t>(bytes)),
                     with_commas(static_cast<std::int64_t>(kMostTextBytes))),
         "the text", "cut it into documents");
}

}  // namespace

TracedText::TracedText(std::string_view original, bool traces)
    : text_(original.data(), checked_size(original.size())), traces_(traces) {
  if (is_valid_utf8(original)) return;
  Revision good(*this);
  for (std::uint32_t at = 0; at < size();) {
    const Sequence sequence = sequence_at(text_, at);
    const Bytes part{at, at + static_cast<std::uint32_t>(sequence.bytes)};
    if (sequence.is_valid)
      good.keep(part);
    else
      good.replace(part, kReplacement);
    at = part.end;
  }
  *this = good.take();
}

Bytes TracedText::origin(Bytes part) const {
  if (origins_.empty()) return part;
  if (part.begin == part.end) {
    const std::uint32_t at = part.begin < size() ? origins_[part.begin].begin : origins_.back().end;
    return {at, at};
  }
  return {origins_[part.begin].begin, std::max(origins_[part.begin].begin, origins_[part.end - 1].end)};
}

Revision::Revision(const TracedText& before) : before_(before) { text_.reserve(before.size() + before.size() / 4); }

void Revision::keep(Bytes part) {
  checked_size(text_.size() + part.end - part.begin);
  text_ += before_.text(part);
  if (!before_.traces_) return;
  if (!before_.origins_.empty()) {
    origins_.insert(origins_.end(), before_.origins_.begin() + part.begin, before_.origins_.begin() + part.end);
    return;
  }
  // All bytes of a code point have the whole code point as their origin.
  for (std::uint32_t at = part.begin; at < part.end;) {
    const auto end = at + static_cast<std::uint32_t>(code_point(before_.text_, at).bytes);
    origins_.insert(origins_.end(), end - at, {at, end});
    at = end;
  }
}

void Revision::replace(Bytes part, std::string_view by) {
  checked_size(text_.size() + by.size());
  text_ += by;
  if (before_.traces_) origins_.insert(origins_.end(), by.size(), before_.origin(part));
}

TracedText Revision::take() { return {std::move(text_), std::move(origins_), before_.traces_}; }

}  // namespace moesh::tokenizer
