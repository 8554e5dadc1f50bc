// A step's batch in words, the same in every command.
#pragma once

#include <string>

#include "config/model_shape.h"

namespace moesh::config {

// "16 rows of 128 tokens a step, 2 a device"; with several passes, ", in 2 microbatches of 8 rows"; then how many rows are loaded, if more.
std::string batch_words(const BatchSizes& batch, std::int64_t length, std::int64_t devices);

// The same as a JSON object.
std::string batch_json(const BatchSizes& batch, std::int64_t length, std::int64_t devices);

// The per_device_batch_size with which so many devices make so many rows.
double rows_a_device(std::int64_t rows, std::int64_t devices);

// "per_device_batch_size=0.5", in as many digits as it takes to read the same number from it.
std::string batch_key(double rows_a_device);

}  // namespace moesh::config
