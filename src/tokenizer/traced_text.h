// A text that is rewritten step by step and keeps track of which bytes of the first version each byte came from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moesh::tokenizer {

inline constexpr std::size_t kMostTextBytes = std::size_t{1} << 31;

struct Bytes {
  std::uint32_t begin, end;
};

class TracedText {
 public:
  // Invalid UTF-8 is repaired. Without `traces` the origins of bytes are not kept.
  TracedText(std::string_view original, bool traces);

  std::string_view text() const { return text_; }
  std::string_view text(Bytes part) const { return std::string_view(text_).substr(part.begin, part.end - part.begin); }
  std::uint32_t size() const { return static_cast<std::uint32_t>(text_.size()); }

  // Where the bytes of a part came from; for an empty part, the place where it stands. Only for text that is traced.
  Bytes origin(Bytes part) const;

 private:
  friend class Revision;
  TracedText(std::string text, std::vector<Bytes> origins, bool traces)
      : text_(std::move(text)), origins_(std::move(origins)), traces_(traces) {}

  std::string text_;
  std::vector<Bytes> origins_;  // of each byte; empty if every byte came from its own place
  bool traces_;
};

// Builds the next version of a text from front to end. What is neither kept nor replaced is left out.
class Revision {
 public:
  explicit Revision(const TracedText& before);

  void keep(Bytes part);
  void replace(Bytes part, std::string_view by);
  void insert(std::uint32_t at, std::string_view text) { replace({at, at}, text); }

  std::uint32_t size() const { return static_cast<std::uint32_t>(text_.size()); }
  TracedText take();

 private:
  const TracedText& before_;
  std::string text_;
  std::vector<Bytes> origins_;
};

}  // namespace moesh::tokenizer
