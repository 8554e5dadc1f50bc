#include "train/trained.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "config/model_shape.h"

namespace moesh::train {
namespace {

// The stacked dims of parameters, from the repeats over one dim that give each iteration a slice of them.
std::unordered_map<graph::ValueId, int> layers_dims(const graph::Graph& model) {
  std::unordered_map<graph::ValueId, int> dims;
  for (const graph::Node& node : model.nodes) {
    const auto* of = std::get_if<graph::RepeatOf>(&node.attributes);
    if (of == nullptr || of->sizes.size() != 1) continue;
    const std::size_t whole = node.operands.size() - of->slices.size();
    for (std::size_t i = whole; i < node.operands.size(); ++i) dims.emplace(node.operands[i], of->slices[i - whole]);
  }
  return dims;
}

}  // namespace

std::vector<Trained> trained_parameters(const graph::Graph& model, const config::Settings& settings) {
  const partition::Optimized optimized(settings);
  const DType mu_dtype = config::first_moment_dtype(settings);
  const std::unordered_map<graph::ValueId, int> dims = layers_dims(model);
  std::vector<Trained> all;
  for (const graph::Node& node : model.nodes) {
    if (node.op != graph::Op::parameter) continue;
    const graph::ValueId id = node.results.front();
    const graph::Value& value = model.value(id);
    const auto& of = std::get<graph::ParameterOf>(node.attributes);
    const auto dim = dims.find(id);
    all.push_back({node.path, of.role, value.shape, of.labels, value.dtype, dim == dims.end() ? -1 : dim->second,
                   !optimized.is_trained(node.path, of.role), optimized.is_beside(of.role),
                   optimized.moments(node.path, of.role, value.shape), mu_dtype});
  }
  if (std::all_of(all.begin(), all.end(), [](const Trained& trained) { return trained.is_frozen; })) {
    refuse("trainable_parameters_mask matches no parameter", settings.origin("trainable_parameters_mask").where,
           "trainable_parameters_mask=[" + all.front().path + "], or [] for all; `moesh shardings` lists them");
  }
  return all;
}

}  // namespace moesh::train
