// The rows of a step's batch.
#pragma once

#include <cstdint>

#include "config/settings.h"

namespace moesh::config {

// From per_device_batch_size, which may be a fraction.
struct BatchSizes {
  std::int64_t rows_to_load = 0;   // rows of a global batch that are read
  std::int64_t rows_to_train = 0;  // the first of those, which are trained on
  std::int64_t micro_rows = 0;     // rows of one forward and backward pass
};

BatchSizes batch_sizes(const Settings& settings, std::int64_t devices);

BatchSizes evaluation_sizes(const Settings& settings, std::int64_t devices);  // of batches for evaluation

}  // namespace moesh::config
