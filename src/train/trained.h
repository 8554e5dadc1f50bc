// What a step changes: the parameters, and the moments that the optimizer keeps of their gradients.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/settings.h"
#include "graph/graph.h"

namespace moesh::train {

struct Trained {
  std::string path;
  graph::Role role = graph::Role::none;
  Shape shape;
  Labels labels;
  DType dtype = DType::float32;
  int layers_dim = -1;         // dim in which the layers of a stack stand; -1 for a single layer, or if there is a dim of stages too
  int moments = 2;             // how many the optimizer keeps: none, mu, or mu and nu
  DType mu_dtype = DType::float32;

  std::string mu() const { return "mu/" + path; }
  std::string nu() const { return "nu/" + path; }
};

// Whether a name is that of a moment rather than of a parameter.
inline bool is_moment(std::string_view name) { return name.starts_with("mu/") || name.starts_with("nu/"); }

// Whether the parameter belongs to one expert, so that only the tokens routed to that expert are multiplied with it.
inline bool is_of_an_expert(graph::Role role) { return role == graph::Role::expert_kernel || role == graph::Role::expert_bias; }

std::vector<Trained> trained_parameters(const graph::Graph& model, const config::Settings& settings);

}  // namespace moesh::train
