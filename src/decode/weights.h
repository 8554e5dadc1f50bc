// Where a model that decodes has its parameters from.
#pragma once

#include <string>

#include "backend/workers.h"
#include "decode/decoder.h"
#include "models/model.h"

namespace moesh::decode {

// Those of a Hugging Face folder, of a run's newest checkpoint, or of the checkpoint that is named. `graph`: whose parameters are meant.
// What was read, as a line.
std::string read_weights(Decoder& decoder, const graph::Graph& graph, const models::ModelRequest& request, const std::string& path,
                         backend::Workers& workers);

}  // namespace moesh::decode
