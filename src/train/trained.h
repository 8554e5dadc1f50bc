// The parameters of a model in training, and the moments that the optimizer keeps of their gradients.
#pragma once

#include <string>
#include <vector>

#include "config/settings.h"
#include "graph/graph.h"
#include "partition/moments.h"

namespace moesh::train {

struct Trained {
  std::string path;
  graph::Role role = graph::Role::none;
  Shape shape;
  Labels labels;
  DType dtype = DType::float32;
  int layers_dim = -1;         // dim in which the layers of a stack stand; -1 for a single layer, or if there is a dim of stages too
  bool is_frozen = false;      // the optimizer leaves it out (trainable_parameters_mask)
  bool is_beside = false;      // a value beside the weights, which no norm counts
  int moments = 2;             // how many the optimizer keeps: none, mu, or mu and nu
  DType mu_dtype = DType::float32;

  std::string mu() const { return partition::mu_of(path); }
  std::string nu() const { return partition::nu_of(path); }
};

// Whether the parameter belongs to one expert, so that only the tokens routed to that expert are multiplied with it.
inline bool is_of_an_expert(graph::Role role) { return role == graph::Role::expert_kernel || role == graph::Role::expert_bias; }

// All parameters, in the order of the graph. Refuses settings that leave none of them to train.
std::vector<Trained> trained_parameters(const graph::Graph& model, const config::Settings& settings);

}  // namespace moesh::train
