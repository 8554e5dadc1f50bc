// The facts about a model that the translation of a layout needs.
#pragma once

#include <cstdint>
#include <string>

namespace moesh::foreign {

struct ModelFacts {
  std::int64_t layers = 0;
  std::int64_t dense_layers = 0;  // leading dense layers, in families that keep them separately
  std::int64_t experts = 0;       // experts per layer; 0 if the model has dense MLPs
  bool is_latent = false;         // multi-head latent attention
  std::int64_t layers_per_block = 1;  // layers of the cycle within which they differ; a pipeline stage has whole cycles
};

ModelFacts facts_of(const std::string& model_name);

}  // namespace moesh::foreign
