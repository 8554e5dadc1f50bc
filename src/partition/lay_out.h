// Applies the rules to a graph: the layout of its parameters, constraints, inputs and optimizer state.
#pragma once

#include "config/batch_sizes.h"
#include "config/model_shape.h"
#include "graph/graph.h"
#include "sharding/layout.h"

namespace moesh::partition {

// Whether a parameter, input or region operand whose dims do not divide evenly is refused, or left for a report.
enum class Evenness { demanded, reported };

struct LayoutRequest {
  const config::Settings& settings;
  const mesh::Mesh& mesh;
  config::BatchSizes batch;
  Evenness evenness = Evenness::demanded;
};

// The mesh and the rules, and no tensor yet.
sharding::Layout empty_layout(const config::Settings& settings, const mesh::Mesh& mesh);

sharding::Layout lay_out(const graph::Graph& graph, const LayoutRequest& request);

// The layout of a model for decoding: states such as the KV cache instead of optimizer state. The input is replicated.
sharding::Layout lay_out_decoding(const graph::Graph& graph, const config::Settings& settings, const mesh::Mesh& mesh,
                                  Evenness evenness = Evenness::demanded);

}  // namespace moesh::partition
