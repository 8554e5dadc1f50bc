// Texts as token ids: what a document is in the data, by the tokenizer that the settings name or as bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "config/settings.h"
#include "data/files.h"
#include "data/source.h"
#include "tokenizer/tokenizer.h"

namespace moesh::data {

// The tokenizer that the settings name; if they name none, texts are their bytes. Refuses one with more tokens than the vocabulary has.
std::unique_ptr<tokenizer::Tokenizer> open_tokenizer(const config::Settings& settings);

class DocumentTokens {
 public:
  explicit DocumentTokens(const config::Settings& settings);

  std::string words() const;  // "the bytes", or "the tokens by byte pairs of FILE"

  std::string identity() const;

  // With the tokens that add_bos and add_eos put around it, if the tokenizer has them.
  Tokens of(std::string_view text) const { return of_part(text, true, true); }
  // For a part of a document, which may begin or end it.
  Tokens of_part(std::string_view text, bool begins, bool ends) const;

 private:
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
  bool is_bytes_;
  std::optional<std::int32_t> begin_, end_;  // tokens put around each document
};

// The tokens of the files, one after the other, each file as a document.
Tokens tokens_of_files(const DataFiles& files, const DocumentTokens& documents);

}  // namespace moesh::data
