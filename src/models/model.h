// A whole model as a graph on global shapes, from tokens to the loss.
#pragma once

#include <cstdint>

#include "config/model_shape.h"
#include "graph/graph.h"

namespace moesh::models {

struct ModelRequest {
  const config::Settings& settings;
  const config::ModelShape& shape;
  std::int64_t rows = 1;           // of one pass
  std::int64_t expert_shards = 1;  // shards of the expert dim in activations
};

// Results: the loss; the cross entropy; and for a model with one, the balance loss.
graph::Graph build_model(const ModelRequest& request);

}  // namespace moesh::models
