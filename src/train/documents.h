// Texts as token ids: what a document is in the data, by the tokenizer that the settings name or as bytes.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "config/settings.h"
#include "tokenizer/tokenizer.h"
#include "train/data_files.h"
#include "train/token_sequence.h"

namespace moesh::train {

class DocumentTokens {
 public:
  // Refuses a tokenizer with more tokens than the vocabulary has.
  explicit DocumentTokens(const config::Settings& settings);

  bool has_tokenizer() const { return tokenizer_ != nullptr; }
  std::string words() const;  // "the bytes", or "the tokens by byte pairs of FILE"

  // With what add_bos and add_eos put around it, where the tokenizer has such tokens.
  Tokens of(std::string_view text) const;

 private:
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
  bool adds_begin_, adds_end_;
};

// Each file as a document, one after the other.
Tokens tokens_of_files(const DataFiles& files, const DocumentTokens& documents);

// All of a file.
std::string whole_text(const DataFiles& files, const DataFile& file);

}  // namespace moesh::train
