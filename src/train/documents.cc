#include "train/documents.h"

#include <optional>
#include <span>

#include <fmt/core.h>

#include "base/error.h"
#include "base/progress.h"

namespace moesh::train {
namespace {

// What is not asked for is told by the file.
std::optional<tokenizer::Format> format_of(const config::Settings& settings) {
  const std::string& type = settings.text("tokenizer_type");
  if (type == "tiktoken") {
    refuse("tokenizer_type=tiktoken is not read", settings.origin("tokenizer_type").where,
           "give the model's tokenizer.json and tokenizer_type=huggingface");
  }
  if (settings.is_default("tokenizer_type") && !settings.is_by_user("tokenizer_type")) return std::nullopt;
  return type == "huggingface" ? tokenizer::Format::json : tokenizer::Format::sentencepiece;
}

std::unique_ptr<tokenizer::Tokenizer> open_tokenizer(const config::Settings& settings) {
  const std::string& path = settings.text("tokenizer_path");
  if (path.empty()) return nullptr;
  auto tokenizer = tokenizer::open(path, format_of(settings));
  const std::int64_t vocab_size = settings.integer("vocab_size");
  if (tokenizer->size() > vocab_size) {
    refuse(fmt::format("the tokenizer has ids up to {}, but vocab_size={}", tokenizer->size() - 1, vocab_size),
           settings.origin("tokenizer_path").where,
           fmt::format("vocab_size={}, or the tokenizer of this model", tokenizer->size()));
  }
  return tokenizer;
}

}  // namespace

DocumentTokens::DocumentTokens(const config::Settings& settings)
    : tokenizer_(open_tokenizer(settings)),
      adds_begin_(settings.boolean("add_bos")),
      adds_end_(settings.boolean("add_eos")) {}

std::string DocumentTokens::words() const {
  return has_tokenizer() ? "the tokens by " + tokenizer_->describe() : "the bytes";
}

Tokens DocumentTokens::of(std::string_view text) const {
  if (!has_tokenizer()) {
    Tokens bytes;
    for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
    if (adds_end_) bytes.push_back(0);
    return bytes;
  }
  Tokens tokens = tokenizer_->encode(text, tokenizer::Special::left_out);
  if (adds_begin_ && tokenizer_->begin_id) tokens.insert(tokens.begin(), *tokenizer_->begin_id);
  if (adds_end_ && tokenizer_->end_id) tokens.push_back(*tokenizer_->end_id);
  return tokens;
}

Tokens tokens_of_files(const DataFiles& files, const DocumentTokens& documents) {
  Tokens all;
  Progress progress("MiB of text tokenized", files.size() >> 20);
  for (const DataFile& file : files.files()) {
    const Tokens tokens = documents.of(whole_text(files, file));
    all.insert(all.end(), tokens.begin(), tokens.end());
    progress.advance((file.begin + file.bytes) >> 20);
  }
  return all;
}

std::string whole_text(const DataFiles& files, const DataFile& file) {
  std::string text(static_cast<std::size_t>(file.bytes), '\0');
  files.read(file.begin, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace moesh::train
