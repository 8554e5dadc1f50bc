// What the translation of a layout has to know of a model.
#pragma once

#include <cstdint>
#include <string>

namespace moesh::foreign {

struct ModelFacts {
  std::int64_t layers = 0;
  std::int64_t dense_layers = 0;  // at the start, where the family keeps them apart
  std::int64_t experts = 0;       // of a layer; 0 where it has a dense MLP
  bool is_latent = false;         // attention over a compressed width
};

ModelFacts facts_of(const std::string& model_name);

}  // namespace moesh::foreign
