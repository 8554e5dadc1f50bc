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

// What a line holds, and which lines are taken.
struct LineFormat {
  std::string field;
  std::shared_ptr<const DocumentTokens> tokens;  // of a text; without them the field is a list of token ids
  Split split = {};                              // by what the field holds
};

// One field of every line that is taken, as bytes, by a tokenizer or as token ids. Lines that do not hold it are left out: the first are
// named, all are counted. Ids that the vocabulary lacks are refused.
std::unique_ptr<DocumentReader> read_json_lines(DataFiles files, const LineFormat& format, const config::Settings& settings);

}  // namespace moesh::data
