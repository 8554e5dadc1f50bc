// The tensors of a model, each of a single layer or a stack of layers, and the names of their layers one by one.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/shape.h"
#include "store/layers.h"

namespace moesh::store {

struct ModelTensor {
  std::string name;
  Shape shape;
  int layers_dim = -1;  // dim in which the layers of a stack stand
};

// The layers that a tensor holds; its shape has the dims that its name and layers_dim speak of.
LayerNames::Stack stack_of(const ModelTensor& tensor);
LayerNames layer_names(const std::vector<ModelTensor>& tensors);
// The shape of each layer, by the name of the single layer.
std::map<std::string, Shape> shapes_alone(const std::vector<ModelTensor>& tensors);
Shape layer_shape(const ModelTensor& tensor);

}  // namespace moesh::store
