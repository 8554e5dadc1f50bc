// Contradictions in a model's shape, each refused with both values and a way out.
#pragma once

#include "config/model_shape.h"

namespace moesh::config {

void check_model(const ModelShape& shape, const Settings& settings);

}  // namespace moesh::config
