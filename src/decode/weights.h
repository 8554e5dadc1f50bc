// Where a model that decodes has its parameters from.
#pragma once

#include <string>

#include "backend/workers.h"
#include "config/settings.h"
#include "decode/generation.h"

namespace moesh::decode {

// Those of a run's newest checkpoint, or of the checkpoint that is named; what was read, as a line.
std::string read_checkpoint(Generator& generator, const config::Settings& settings, const std::string& path, backend::Workers& workers);

}  // namespace moesh::decode
