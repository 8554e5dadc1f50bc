#include "tokenizer/bytes.h"

#include <fmt/core.h>

#include "base/error.h"

namespace moesh::tokenizer {
namespace {

constexpr std::int32_t kBytes = 256;

class ByteTokenizer : public Tokenizer {
 public:
  Ids encode(std::string_view text, Special) const override {
    Ids ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  std::vector<Piece> pieces(std::string_view text, Special) const override {
    std::vector<Piece> all;
    for (const char c : text) {
      const auto at = static_cast<std::int64_t>(all.size());
      all.push_back({static_cast<unsigned char>(c), token(static_cast<unsigned char>(c)), at, at + 1});
    }
    return all;
  }
  std::string decode(std::span<const std::int32_t> ids, Special) const override {
    std::string text;
    for (const std::int32_t id : ids) text += checked(id);
    return text;
  }
  std::int64_t size() const override { return kBytes; }
  bool has(std::int32_t id) const override { return id >= 0 && id < kBytes; }
  std::string token(std::int32_t id) const override { return fmt::format("<0x{:02X}>", static_cast<unsigned char>(checked(id))); }
  std::optional<std::int32_t> id(std::string_view token) const override {
    for (std::int32_t byte = 0; byte < kBytes; ++byte) {
      if (this->token(byte) == token) return byte;
    }
    return std::nullopt;
  }
  std::string describe() const override { return "bytes"; }

 private:
  static char checked(std::int32_t id) {
    if (id < 0 || id >= kBytes) refuse(fmt::format("token {} is no byte", id), "the bytes", "use the tokenizer of this model");
    return static_cast<char>(id);
  }
};

}  // namespace

std::unique_ptr<Tokenizer> bytes() { return std::make_unique<ByteTokenizer>(); }

}  // namespace moesh::tokenizer
