#include "tokenizer/sentence_piece.h"

#include <sentencepiece_processor.h>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"

namespace moesh::tokenizer {
namespace {

// The largest text, as the library takes some hundred bytes of memory per byte of text.
constexpr std::size_t kMostModelBytes = 64 << 20;

std::optional<std::int32_t> if_any(int id) { return id >= 0 ? std::optional<std::int32_t>(id) : std::nullopt; }

class SentencePieceTokenizer : public Tokenizer {
 public:
  SentencePieceTokenizer(const std::string& bytes, const std::string& path, Around around)
      : path_(path), around_(around) {
    const sentencepiece::util::Status status = model_.LoadFromSerializedProto(bytes);
    if (!status.ok())
      refuse(fmt::format("not readable as a tokenizer.model: {}", shorten(status.error_message(), 120)), path,
             "take the file from where it came from again");
    begin_id = if_any(model_.bos_id());
    end_id = if_any(model_.eos_id());
  }

  Ids encode(std::string_view text, Special special) const override {
    check_size(text);
    Ids ids;
    check(model_.Encode(text, &ids));
    if (has_begin(special)) ids.insert(ids.begin(), *begin_id);
    if (has_end(special)) ids.push_back(*end_id);
    return ids;
  }

  std::vector<Piece> pieces(std::string_view text, Special special) const override {
    check_size(text);
    sentencepiece::ImmutableSentencePieceText made;
    check(model_.Encode(text, made.mutable_proto()));
    const auto end = static_cast<std::int64_t>(text.size());
    std::vector<Piece> all;
    if (has_begin(special)) all.push_back({*begin_id, token(*begin_id), 0, 0});
    for (const auto& piece : made.pieces())
      all.push_back({static_cast<std::int32_t>(piece.id()), piece.piece(), piece.begin(), piece.end()});
    if (has_end(special)) all.push_back({*end_id, token(*end_id), end, end});
    return all;
  }

  // To the library control tokens are never text, whether they are asked for or not.
  std::string decode(std::span<const std::int32_t> ids, Special) const override {
    for (const std::int32_t id : ids) check_id(id);
    std::string text;
    check(model_.Decode(Ids(ids.begin(), ids.end()), &text));
    return text;
  }

  std::int64_t size() const override { return model_.GetPieceSize(); }
  bool has(std::int32_t id) const override { return id >= 0 && id < size(); }

  std::string token(std::int32_t id) const override {
    check_id(id);
    return model_.IdToPiece(id);
  }

  std::optional<std::int32_t> id(std::string_view token) const override {
    const int id = model_.PieceToId(token);
    return model_.IdToPiece(id) == token ? std::optional<std::int32_t>(id) : std::nullopt;
  }

  std::string describe() const override { return "SentencePiece's pieces of " + path_; }

 private:
  bool has_begin(Special special) const { return special == Special::added && around_.begin && begin_id; }
  bool has_end(Special special) const { return special == Special::added && around_.end && end_id; }

  void check_size(std::string_view text) const {
    if (text.size() <= kMostModelBytes) return;
    refuse(fmt::format("a text of {} bytes, SentencePiece takes at most {} at once",
                       with_commas(static_cast<std::int64_t>(text.size())),
                       with_commas(static_cast<std::int64_t>(kMostModelBytes))),
           path_, "cut it into documents, or give the model's tokenizer.json");
  }

  void check_id(std::int32_t id) const {
    if (has(id)) return;
    refuse(fmt::format("{} is the id of no token, those that there are lie below {}", id, size()), path_,
           "ids that this tokenizer has made");
  }

  void check(const sentencepiece::util::Status& status) const {
    if (!status.ok()) fail(fmt::format("SentencePiece: {}", status.error_message()), path_);
  }

  std::string path_;
  Around around_;
  sentencepiece::SentencePieceProcessor model_;
};

}  // namespace

std::unique_ptr<Tokenizer> read_sentence_piece(const std::string& bytes, const std::string& path, Around around) {
  return std::make_unique<SentencePieceTokenizer>(bytes, path, around);
}

}  // namespace moesh::tokenizer
