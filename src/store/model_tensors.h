// The tensors of a model, each of one layer or of a stack of them, and what they are called layer by layer.
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
  int layers_dim = -1;  // where the layers of a stack stand
};

LayerNames layer_names(const std::vector<ModelTensor>& tensors);
// Of each layer by what it is called alone.
std::map<std::string, Shape> shapes_alone(const std::vector<ModelTensor>& tensors);
Shape layer_shape(const ModelTensor& tensor);

// "a, b, c, d and 3 more"
std::string some_of(const std::vector<std::string>& names);

}  // namespace moesh::store
