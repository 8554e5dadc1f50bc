// Prints a graph as text: one line per node, bodies indented below their node; parse.h reads it back.
#pragma once

#include <string>

#include "graph/graph.h"

namespace moesh::graph {

// With a mesh, values are printed with their layout on it.
std::string to_text(const Graph& graph, const mesh::Mesh* mesh = nullptr);

// "equation=bsm,mh->bsh", without numbers at their defaults.
std::string to_text(const Attributes& attributes, const mesh::Mesh* mesh);
std::string to_text(const sharding::Spec& spec, const mesh::Mesh* mesh);

struct GraphCounts {
  std::int64_t nodes = 0;
  std::int64_t parameters = 0;
  std::int64_t constraints = 0;
};
GraphCounts count(const Graph& graph);

}  // namespace moesh::graph
