// Documents in files of JSON Lines.
#pragma once

#include "config/settings.h"
#include "train/data_files.h"
#include "train/rows.h"

namespace moesh::train {

// What a line holds, and which lines are taken.
struct LineFormat {
  std::string field;
  bool is_text = true;  // whose bytes are the tokens; else they are listed
  Split split = {};
};

// One field of every line that is taken; ids that the vocabulary lacks are refused.
Documents read_json_lines(const DataFiles& files, const LineFormat& format, const config::Settings& settings);

}  // namespace moesh::train
