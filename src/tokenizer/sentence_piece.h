// Tokenizers of SentencePiece's own format, through its library.
#pragma once

#include <memory>
#include <string>

#include "tokenizer/tokenizer.h"

namespace moesh::tokenizer {

// What is put around a text, where the model has such tokens.
struct Around {
  bool begin = true, end = false;
};

// `bytes`: the file's content.
std::unique_ptr<Tokenizer> read_sentence_piece(const std::string& bytes, const std::string& path, Around around);

}  // namespace moesh::tokenizer
