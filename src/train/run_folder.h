// The folder that a run writes to.
#pragma once

#include <string>

#include "config/settings.h"

namespace moesh::train {

// BASE_OUTPUT_DIRECTORY/RUN_NAME, which need not exist. Only for settings with a run_name.
std::string named_run_folder(const config::Settings& settings);

// The same, created if it is not there. If no name is given, it is made from the model and the date, and no
// other run has it.
std::string make_run_folder(const config::Settings& settings);

}  // namespace moesh::train
