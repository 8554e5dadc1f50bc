// What a step changes: the parameters, and what the optimizer keeps of their gradients.
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
  int layers_dim = -1;         // where the layers of a stack stand; none where it is of one layer, or has a dim a stage
  int moments = 2;             // how many the optimizer keeps: mu, or mu and nu
  DType mu_dtype = DType::float32;

  std::string mu() const { return "mu/" + path; }
  std::string nu() const { return "nu/" + path; }
};

// Whether a name is that of a moment, not of a parameter.
inline bool is_moment(std::string_view name) { return name.starts_with("mu/") || name.starts_with("nu/"); }

// Whether a token is multiplied with it only where the token goes to its expert.
inline bool is_of_an_expert(graph::Role role) { return role == graph::Role::expert_kernel || role == graph::Role::expert_bias; }

std::vector<Trained> trained_parameters(const graph::Graph& model, const config::Settings& settings);

}  // namespace moesh::train
