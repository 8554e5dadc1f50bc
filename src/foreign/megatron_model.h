// Translates the model that Megatron-LM's flags describe into one of moesh's model families with its sizes.
#pragma once

#include <cstdint>

#include "foreign/flags.h"
#include "foreign/model_facts.h"
#include "foreign/translation.h"

namespace moesh::foreign {

inline constexpr const char* kFromMegatron = "--from megatron";  // the place that error messages name

// `tensor`: the degree of tensor parallelism, on which the padding of the vocabulary depends.
ModelFacts give_megatron_model(Flags& flags, std::int64_t tensor, Translation& translation);

}  // namespace moesh::foreign
