// Reverse-mode differentiation of a graph, on global shapes.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "graph/builder.h"

namespace moesh::graph {

// Which values of a layer the backward pass finds saved; the others are computed again from the layer's input.
struct Remat {
  bool save_all = false;
  std::set<std::string> tags;

  bool saves(const Node& node) const { return save_all || (!node.tag.empty() && tags.contains(node.tag)); }
};

// Rewrites every repeat so that it also gives what its backward pass will need, and goes on with the graph in a builder.
Graph with_saved_values(const Graph& graph, const Remat& remat);

// Adds the backward pass of the scalar `of` to its graph, which must come from with_saved_values. The result of each of
// `with_respect_to` is its gradient, of its shape and type; a value that `of` does not depend on has zeros.
std::vector<Tensor> gradients(Tensor of, const std::vector<Tensor>& with_respect_to);

}  // namespace moesh::graph
