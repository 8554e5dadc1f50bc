// Reads the parameters of a model for decoding.
#pragma once

#include <string>

#include "backend/workers.h"
#include "decode/decoder.h"
#include "models/model.h"

namespace moesh::decode {

// Reads the parameters of `graph` from a Hugging Face folder, from a run's newest whole checkpoint, or from a checkpoint. Returns a line on
// what was read.
std::string read_weights(Decoder& decoder, const graph::Graph& graph, const models::ModelRequest& request, const std::string& path,
                         backend::Workers& workers);

}  // namespace moesh::decode
