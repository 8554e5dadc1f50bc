// Reads a graph that print.h wrote, so that a pass can be tested with a few lines before and a few lines after it.
#pragma once

#include <optional>
#include <string>

#include "graph/graph.h"

namespace moesh::graph {

struct ParsedGraph {
  Graph graph;
  std::optional<mesh::Mesh> mesh;  // present if values have layouts
};

// Refuses text that is not a graph, naming the line; shapes are checked by the ops' rules.
ParsedGraph parse_graph(const std::string& text);

}  // namespace moesh::graph
