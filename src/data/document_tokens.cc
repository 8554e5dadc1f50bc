#include "data/document_tokens.h"

#include <fmt/core.h>

#include "base/error.h"
#include "base/progress.h"
#include "tokenizer/bytes.h"

namespace moesh::data {
namespace {

// The format that tokenizer_type asks for; if it is not given, the file tells.
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

// With add_eos, documents of bytes end with a 0.
DocumentTokens::DocumentTokens(const config::Settings& settings)
    : tokenizer_(open_tokenizer(settings)), is_bytes_(settings.text("tokenizer_path").empty()) {
  if (settings.boolean("add_bos")) begin_ = tokenizer_->begin_id;
  if (settings.boolean("add_eos")) end_ = is_bytes_ ? 0 : tokenizer_->end_id;
}

std::string DocumentTokens::words() const {
  return is_bytes_ ? "the bytes" : "the tokens by " + tokenizer_->describe();
}

std::string DocumentTokens::identity() const {
  return fmt::format("{} {} {} {}", is_bytes_, tokenizer_->size(), begin_.value_or(-1), end_.value_or(-1));
}

Tokens DocumentTokens::of_part(std::string_view text, bool begins, bool ends) const {
  Tokens tokens = tokenizer_->encode(text, tokenizer::Special::left_out);
  if (begins && begin_) tokens.insert(tokens.begin(), *begin_);
  if (ends && end_) tokens.push_back(*end_);
  return tokens;
}

Tokens tokens_of_files(const DataFiles& files, const DocumentTokens& documents) {
  Tokens all;
  Progress progress("MiB of text tokenized", files.size() >> 20);
  for (const DataFile& file : files.files()) {
    const Tokens tokens = documents.of(files.text(file, 0, file.bytes));
    all.insert(all.end(), tokens.begin(), tokens.end());
    progress.advance((file.begin + file.bytes) >> 20);
  }
  return all;
}

}  // namespace moesh::data
