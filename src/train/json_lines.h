// Documents in files of JSON Lines.
#pragma once

#include "config/settings.h"
#include "train/data_files.h"
#include "train/rows.h"

namespace moesh::train {

// One field of every line, as bytes or as token ids; ids that the vocabulary lacks are refused.
Documents read_json_lines(const DataFiles& files, const config::Settings& settings);

}  // namespace moesh::train
