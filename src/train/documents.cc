#include "train/documents.h"

#include <span>

#include <fmt/core.h>

#include "base/error.h"
#include "base/progress.h"
#include "tokenizer/bytes.h"

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

}  // namespace

std::unique_ptr<tokenizer::Tokenizer> open_tokenizer(const config::Settings& settings) {
  const std::string& path = settings.text("tokenizer_path");
  if (path.empty()) return tokenizer::bytes();
  auto tokenizer = tokenizer::open(path, format_of(settings));
  const std::int64_t vocab_size = settings.integer("vocab_size");
  if (tokenizer->size() > vocab_size) {
    refuse(fmt::format("the tokenizer has ids up to {}, but vocab_size={}", tokenizer->size() - 1, vocab_size),
           settings.origin("tokenizer_path").where,
           fmt::format("vocab_size={}, or the tokenizer of this model", tokenizer->size()));
  }
  return tokenizer;
}

// Documents of bytes end with a 0.
DocumentTokens::DocumentTokens(const config::Settings& settings)
    : tokenizer_(open_tokenizer(settings)), is_bytes_(settings.text("tokenizer_path").empty()) {
  if (settings.boolean("add_bos")) begin_ = tokenizer_->begin_id;
  if (settings.boolean("add_eos")) end_ = is_bytes_ ? 0 : tokenizer_->end_id;
}

std::string DocumentTokens::words() const {
  return is_bytes_ ? "the bytes" : "the tokens by " + tokenizer_->describe();
}

Tokens DocumentTokens::of(std::string_view text) const {
  Tokens tokens = tokenizer_->encode(text, tokenizer::Special::left_out);
  if (begin_) tokens.insert(tokens.begin(), *begin_);
  if (end_) tokens.push_back(*end_);
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
