// How large a model is: its parameters, and the arithmetic of a step.
#pragma once

#include <cstdint>

#include "config/model_shape.h"
#include "graph/graph.h"

namespace moesh::train {

struct ModelSize {
  std::int64_t parameters = 0;
  std::int64_t active = 0;     // parameters in use for one token
  double step_flops = 0;       // per global batch, forward and backward, without rematerialisation, by MaxText's conventions
};

// `tokens`: per global batch; `length`: per row.
ModelSize model_size(const graph::Graph& model, const config::ModelShape& shape, std::int64_t tokens, std::int64_t length);

}  // namespace moesh::train
