// Texts as token ids: what a document is in the data, by the tokenizer that the settings name or as bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "config/settings.h"
#include "tokenizer/tokenizer.h"
#include "train/data_files.h"
#include "train/token_sequence.h"

namespace moesh::train {

// The tokenizer that the settings name; where they name none, texts are their bytes. Refuses one with more tokens than the vocabulary has.
std::unique_ptr<tokenizer::Tokenizer> open_tokenizer(const config::Settings& settings);

class DocumentTokens {
 public:
  explicit DocumentTokens(const config::Settings& settings);

  std::string words() const;  // "the bytes", or "the tokens by byte pairs of FILE"

  // With what add_bos and add_eos put around it, where the tokenizer has such tokens.
  Tokens of(std::string_view text) const;

 private:
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
  bool is_bytes_;
  std::optional<std::int32_t> begin_, end_;  // what is put around each
};

// Each file as a document, one after the other.
Tokens tokens_of_files(const DataFiles& files, const DocumentTokens& documents);

// All of a file.
std::string whole_text(const DataFiles& files, const DataFile& file);

}  // namespace moesh::train
