// A training step as graphs: the gradients of a model, and the update of its parameters.
#pragma once

#include <string>
#include <vector>

#include "config/settings.h"
#include "graph/graph.h"

namespace moesh::train {

// Inputs: the batch, then the parameters, as the model's graph has them. Results: the model's, then a gradient for each
// parameter. With several microbatches the gradient is of the summed loss, to be divided by all positions.
graph::Graph gradient_graph(const graph::Graph& model, const config::Settings& settings);

// A parameter with its place in the optimizer's state.
struct Trained {
  std::string path;
  graph::Role role = graph::Role::none;
  Shape shape;
  DType dtype = DType::float32;
  int moments = 2;             // how many the optimizer keeps: mu, or mu and nu
  DType mu_dtype = DType::float32;
};

std::vector<Trained> trained_parameters(const graph::Graph& model, const config::Settings& settings);

// Inputs: [rate, step]; what to multiply gradients with; Muon's two mixing weights; then for each parameter it, its gradient and its moments.
// Results: the norms squared of the gradients before and after clipping and of the new parameters; then for each parameter
// the new one and its new moments.
graph::Graph update_graph(const std::vector<Trained>& parameters, const config::Settings& settings);

// The learning rate of a step, from 0 on.
double learning_rate(const config::Settings& settings, std::int64_t step);

}  // namespace moesh::train
