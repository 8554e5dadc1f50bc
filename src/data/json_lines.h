// Documents in files of JSON Lines.
#pragma once

#include <memory>
#include <string>

#include "config/settings.h"
#include "data/document_tokens.h"
#include "data/files.h"
#include "data/reader.h"
#include "data/rows.h"

namespace moesh::data {

// The field of a line that holds the document, and which documents are taken.
struct LineFormat {
  std::string field;
  std::shared_ptr<const DocumentTokens> tokens;  // for a text; without them the field is a list of token ids
  Split split = {};                              // by the contents of the field
  const char *columns = "train_data_columns", *tokenize = "tokenize_train_data";  // the keys that say so, for messages
};

// One field of every line that is taken, as bytes, by a tokenizer or as token ids. Lines that do not hold it are left out: the first of
// them are named, and all are counted. Ids that the vocabulary does not have are refused.
std::unique_ptr<DocumentReader> read_json_lines(DataFiles files, const LineFormat& format, const config::Settings& settings);

}  // namespace moesh::data
