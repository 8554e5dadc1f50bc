// Reverse-mode differentiation of a graph, on global shapes.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "graph/builder.h"

namespace moesh::graph {

// Which values of a layer are saved for the backward pass; the others are recomputed from the layer's input.
struct Remat {
  bool save_all = false;
  std::set<std::string> tags;

  bool saves(const Node& node) const { return save_all || (!node.tag.empty() && tags.contains(node.tag)); }
};

// Rewrites every repeat and region so that its last results are the values that its backward pass needs.
Graph with_saved_values(const Graph& graph, const Remat& remat);

// Adds the backward pass of the scalar `of` to its graph, which must come from with_saved_values. Returns the gradient for each of
// `with_respect_to`, in its shape and type; zeros for a tensor that `of` does not depend on.
std::vector<Tensor> gradients(Tensor of, const std::vector<Tensor>& with_respect_to);

}  // namespace moesh::graph
