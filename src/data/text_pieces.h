// Large texts as documents: pieces that end with a line.
#pragma once

#include <memory>

#include "data/document_tokens.h"
#include "data/files.h"
#include "data/reader.h"
#include "data/rows.h"

namespace moesh::data {

// Pieces of about 64 KiB, each tokenized by itself; the first piece of a file begins the text, and the last ends it. A text without line
// ends is cut at blanks, and one without blanks between characters.
std::unique_ptr<DocumentReader> read_text_pieces(DataFiles files, const Split& split, std::shared_ptr<const DocumentTokens> tokens);

}  // namespace moesh::data
