#include "tokenizer/word_cache.h"

namespace moesh::tokenizer {
namespace {

constexpr std::size_t kMostEntries = 1 << 18, kLongestWord = 256;

}  // namespace

std::optional<std::span<const Token>> WordCache::find(std::string_view word) const {
  if (word.size() > kLongestWord) return std::nullopt;
  const std::int32_t place = places_.find(word);
  if (place == kNone) return std::nullopt;
  const Entry& entry = entries_[static_cast<std::size_t>(place)];
  return std::span(tokens_).subspan(entry.begin, entry.count);
}

void WordCache::add(std::string_view word, std::span<const Token> tokens) {
  if (word.size() > kLongestWord) return;
  if (entries_.size() == kMostEntries) *this = WordCache();
  places_.set(word, static_cast<std::int32_t>(entries_.size()));
  entries_.push_back({tokens_.size(), tokens.size()});
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

}  // namespace moesh::tokenizer
