// The model that flags of Megatron-LM describe, as a family of moesh with its sizes.
#pragma once

#include <cstdint>

#include "foreign/flags.h"
#include "foreign/model_facts.h"
#include "foreign/translation.h"

namespace moesh::foreign {

inline constexpr const char* kFromMegatron = "--from megatron";  // where what is wrong stands

// `tensor`: devices along tensor parallelism, by which the vocabulary is padded.
ModelFacts give_megatron_model(Flags& flags, std::int64_t tensor, Translation& translation);

}  // namespace moesh::foreign
