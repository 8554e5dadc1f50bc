// Documents in files of JSON Lines.
#pragma once

#include "config/settings.h"
#include "train/data_files.h"
#include "train/rows.h"

namespace moesh::train {

// What a line holds, and which lines are taken.
struct LineFormat {
  std::string field;
  bool is_text = true;  // else a list of token ids
  Split split = {};
};

// One field of every line that is taken, as bytes, by a tokenizer or as token ids; ids that the vocabulary lacks are refused.
Documents read_json_lines(const DataFiles& files, const LineFormat& format, const config::Settings& settings);

}  // namespace moesh::train
