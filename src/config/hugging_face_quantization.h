// Reads how a config.json says that weights are quantised, as far as their tensors do not say it themselves.
#pragma once

#include <optional>

#include "base/scaled_block.h"
#include "config/hugging_face_reader.h"

namespace moesh::config {

// The block of 8-bit numbers that has one scale; none if each tensor has one. Refuses what moesh reads otherwise than transformers.
std::optional<ScaledBlock> read_quantization(HuggingFaceReader& reader);

}  // namespace moesh::config
