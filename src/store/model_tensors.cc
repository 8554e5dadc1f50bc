#include "store/model_tensors.h"

#include <algorithm>

namespace moesh::store {

LayerNames::Stack stack_of(const ModelTensor& tensor) {
  if (tensor.layers_dim < 0) return {};
  const auto layers = tensor.shape.begin() + tensor.layers_dim;
  return {tensor.layers_dim, *layers, has_stack_within(tensor.name) ? *(layers + 1) : 0};
}

LayerNames layer_names(const std::vector<ModelTensor>& tensors) {
  std::map<std::string, LayerNames::Stack> all;
  for (const ModelTensor& tensor : tensors) all.emplace(tensor.name, stack_of(tensor));
  return LayerNames(std::move(all));
}

std::map<std::string, Shape> shapes_alone(const std::vector<ModelTensor>& tensors) {
  const LayerNames names = layer_names(tensors);
  std::map<std::string, Shape> shapes;
  for (const ModelTensor& tensor : tensors) {
    for (const std::string& alone : names.alone(tensor.name)) shapes.emplace(alone, layer_shape(tensor));
  }
  return shapes;
}

Shape layer_shape(const ModelTensor& tensor) {
  Shape shape = tensor.shape;
  const int dims = tensor.layers_dim < 0 ? 0 : has_stack_within(tensor.name) ? 2 : 1;
  if (dims > 0) shape.erase(shape.begin() + tensor.layers_dim, shape.begin() + tensor.layers_dim + dims);
  return shape;
}

}  // namespace moesh::store
