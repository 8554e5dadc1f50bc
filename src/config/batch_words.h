// A step's batch in words, the same in every command.
#pragma once

#include <string>

#include "config/model_shape.h"

namespace moesh::config {

// "16 rows of 128 tokens a step, 2 a device"; with several passes, ", in 2 microbatches of 8 rows"; then how many rows are loaded, if more.
std::string batch_words(const BatchSizes& batch, std::int64_t length, std::int64_t devices);

// The same as a JSON object.
std::string batch_json(const BatchSizes& batch, std::int64_t length, std::int64_t devices);

}  // namespace moesh::config
