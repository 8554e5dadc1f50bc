#include "train/trained.h"

#include "config/model_shape.h"
#include "graph/matrix_dims.h"

namespace moesh::train {
namespace {

// The stacked dim of a parameter, from the repeat that gives each iteration a slice of it; -1 without such a repeat over one dim.
int layers_dim(const graph::Graph& model, graph::ValueId parameter) {
  for (const graph::Node& node : model.nodes) {
    const auto* of = std::get_if<graph::RepeatOf>(&node.attributes);
    if (of == nullptr || of->sizes.size() != 1) continue;
    const std::size_t whole = node.operands.size() - of->slices.size();
    for (std::size_t i = whole; i < node.operands.size(); ++i) {
      if (node.operands[i] == parameter) return of->slices[i - whole];
    }
  }
  return -1;
}

}  // namespace

std::vector<Trained> trained_parameters(const graph::Graph& model, const config::Settings& settings) {
  const std::string& optimizer = settings.text("opt_type");
  const DType mu_dtype = config::first_moment_dtype(settings);
  std::vector<Trained> all;
  for (const graph::Node& node : model.nodes) {
    if (node.op != graph::Op::parameter) continue;
    const graph::ValueId id = node.results.front();
    const graph::Value& value = model.value(id);
    const auto& of = std::get<graph::ParameterOf>(node.attributes);
    const bool one = optimizer == "muon" && graph::matrix_dims(of.role, value.shape).is_matrix;
    all.push_back({node.path, of.role, value.shape, of.labels, value.dtype, layers_dim(model, id),
                   optimizer == "sgd" ? 0 : one ? 1 : 2, mu_dtype});
  }
  return all;
}

}  // namespace moesh::train
