// Looks for nodes in a graph and in the bodies of its nodes.
#pragma once

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

#include "graph/graph.h"

namespace moesh::test {

// Sees every node of a graph and of all bodies, with the graph that holds it.
inline void see_all(const graph::Graph& graph, const std::function<void(const graph::Graph&, const graph::Node&)>& see) {
  for (const graph::Node& node : graph.nodes) {
    see(graph, node);
    if (const graph::Graph* body = graph::body_of(node)) see_all(*body, see);
  }
}

// The attributes of the first node whose path ends so.
template <typename Of>
Of attributes_at(const graph::Graph& graph, const std::string& end) {
  std::optional<Of> found;
  see_all(graph, [&](const graph::Graph&, const graph::Node& node) {
    const auto* of = std::get_if<Of>(&node.attributes);
    if (of != nullptr && node.path.ends_with(end) && !found) found = *of;
  });
  if (!found) throw std::runtime_error("no node " + end);
  return *found;
}

}  // namespace moesh::test
