// The model that flags of Megatron-LM describe, as a family of moesh with its sizes.
#pragma once

#include <cstdint>

#include "foreign/flags.h"
#include "foreign/translation.h"

namespace moesh::foreign {

// What the rest of the translation goes by.
struct MegatronModel {
  std::int64_t layers = 0;
  std::int64_t dense_layers = 0;  // at the start, where the family keeps them apart
  bool has_experts = false;
  bool is_latent = false;
};

// `tensor`: devices along tensor parallelism, by which the vocabulary is padded.
MegatronModel give_megatron_model(Flags& flags, std::int64_t tensor, Translation& translation);

}  // namespace moesh::foreign
