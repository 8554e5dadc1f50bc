// Where a run writes.
#pragma once

#include <string>

#include "config/settings.h"

namespace moesh::train {

// BASE_OUTPUT_DIRECTORY/RUN_NAME, made if it is not there. Where no name is given it is made from the model and the
// date, and is one that no other run has.
std::string make_run_folder(const config::Settings& settings);

}  // namespace moesh::train
