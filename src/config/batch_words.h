// A step's batch in words and in keys, the same in every command.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/batch_sizes.h"
#include "config/keys.h"

namespace moesh::config {

// "16 rows of 128 tokens a step, 2 a device"; with several passes, ", in 2 microbatches of 8 rows"; then how many rows are loaded, if more.
std::string batch_words(const BatchSizes& batch, std::int64_t length, std::int64_t devices);

// The same as a JSON object.
std::string batch_json(const BatchSizes& batch, std::int64_t length, std::int64_t devices);

// The per_device_batch_size with which so many devices make so many rows.
double rows_a_device(std::int64_t rows, std::int64_t devices);

// "per_device_batch_size=0.5", in as many digits as it takes to read the same number from it.
std::string batch_key(double rows_a_device);

// The numbers of parts into which the rows of a device may be divided, the fewest first: the divisors of a whole number of rows and, as
// devices may share a row, powers of two. One alone does not count.
std::vector<std::int64_t> parts_of_rows(double rows_a_device);

// The keys for the batch in so many times as many passes: per_device_batch_size, then gradient_accumulation_steps.
Keys in_passes(const Settings& settings, std::int64_t parts);

}  // namespace moesh::config
