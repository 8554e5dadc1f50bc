// Tokenizers in SentencePiece's own format, through its library.
#pragma once

#include <memory>
#include <string>

#include "tokenizer/tokenizer.h"

namespace moesh::tokenizer {

// Which tokens are put around a text, if the model has them.
struct Around {
  bool begin = true, end = false;
};

// `bytes`: the contents of the file.
std::unique_ptr<Tokenizer> read_sentence_piece(const std::string& bytes, const std::string& path, Around around);

}  // namespace moesh::tokenizer
