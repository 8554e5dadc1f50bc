// From a graph to the layout of its parameters, constraints, inputs and optimizer state.
#pragma once

#include "config/model_shape.h"
#include "graph/graph.h"
#include "sharding/layout.h"

namespace moesh::partition {

// Whether a parameter, input or region operand whose dims do not divide ends the work, or is left for a report.
enum class Evenness { demanded, reported };

struct LayoutRequest {
  const config::Settings& settings;
  const mesh::Mesh& mesh;
  config::BatchSizes batch;
  Evenness evenness = Evenness::demanded;
};

sharding::Layout lay_out(const graph::Graph& graph, const LayoutRequest& request);

}  // namespace moesh::partition
