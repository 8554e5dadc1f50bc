// Where a run writes.
#pragma once

#include <string>

#include "config/settings.h"

namespace moesh::train {

// BASE_OUTPUT_DIRECTORY/RUN_NAME, with a name made from the date where none is given.
std::string run_folder(const config::Settings& settings);

}  // namespace moesh::train
