#include "data/text_pieces.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/error.h"
#include "data/file_reader.h"
#include "store/hash.h"

namespace moesh::data {
namespace {

constexpr std::int64_t kSoughtBytes = 32 << 10;  // how far after a block's beginning a cut may be

class TextPieces : public FileReader {
 public:
  TextPieces(DataFiles files, Split split, std::shared_ptr<const DocumentTokens> tokens)
      : FileReader(std::move(files)), split_(std::move(split)), tokens_(std::move(tokens)) {}

  std::string describe() const override {
    return fmt::format("{}, pieces of the text of {}", tokens_->words(), path());
  }
  std::string identity() const override { return fmt::format("text {} {}", tokens_->identity(), files().identity()); }

  void read(std::int64_t block, Documents& documents) const override {
    const FileBlock of = at(block);
    const DataFile& file = *of.file;
    const std::int64_t begin = cut(file, of.begin), end = cut(file, of.end);
    if (begin == end) return;
    const std::string text = files().text(file, begin, end);
    ++documents.seen;
    if (split_.takes(store::hash_of(text))) documents.add(tokens_->of_part(text, begin == 0, end == file.bytes));
  }

  void refuse_none() const override {
    refuse("no token is made of the text", path(), "a text that is not empty, or another tokenizer");
  }

 private:
  // Where the text is cut near a place. The pieces on both sides find the same cut.
  std::int64_t cut(const DataFile& file, std::int64_t near) const {
    if (near == 0 || near == file.bytes) return near;
    const std::string text = files().text(file, near, std::min(near + kSoughtBytes, file.bytes));
    if (const std::size_t end = text.find('\n'); end != std::string::npos) return near + static_cast<std::int64_t>(end) + 1;
    if (const std::size_t blank = text.find(' '); blank != std::string::npos) return near + static_cast<std::int64_t>(blank);
    const auto begins_character = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
    const auto first = std::find_if(text.begin(), text.end(), begins_character);
    return near + (first == text.end() ? 0 : first - text.begin());
  }

  Split split_;
  std::shared_ptr<const DocumentTokens> tokens_;
};

}  // namespace

std::unique_ptr<DocumentReader> read_text_pieces(DataFiles files, const Split& split, std::shared_ptr<const DocumentTokens> tokens) {
  return std::make_unique<TextPieces>(std::move(files), split, std::move(tokens));
}

}  // namespace moesh::data
