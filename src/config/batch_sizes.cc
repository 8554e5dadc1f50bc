#include "config/batch_sizes.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"

namespace moesh::config {
namespace {

constexpr double kMostRows = 9007199254740992.0;  // 2^53: still exact as a double

// Sizes of a step of `steps` passes; `key` gives a device's rows per pass.
BatchSizes sizes_of(const Settings& settings, const char* key, std::int64_t devices, std::int64_t steps) {
  const double per_device = settings.real(key);
  const double expansion = settings.real("expansion_factor_real_data");
  const double loads = expansion > 0 ? expansion : 1.0;
  const double micro_rows = static_cast<double>(devices) * per_device;
  const double micro_to_load = static_cast<double>(devices) * std::max(per_device, 1.0) * loads;
  const std::string& where = settings.origin(key).where;
  if (micro_rows < 1) {
    refuse(fmt::format("{} {} on {} makes less than one row", key, per_device, counted(devices, "device")), where,
           fmt::format("at least {} is needed", 1.0 / static_cast<double>(devices)));
  }
  if (std::max(micro_rows, micro_to_load) * static_cast<double>(steps) > kMostRows) {
    refuse(fmt::format("{} {} on {} makes more than 2^53 rows a step", key, per_device, counted(devices, "device")), where, "lower it");
  }
  BatchSizes sizes;
  sizes.micro_rows = static_cast<std::int64_t>(micro_rows);
  sizes.rows_to_load = static_cast<std::int64_t>(micro_to_load) * steps;
  sizes.rows_to_train = sizes.micro_rows * steps;
  if (sizes.rows_to_load < sizes.rows_to_train) {
    refuse(fmt::format("expansion_factor_real_data={} loads {} a step, {} are trained on", expansion,
                       counted(sizes.rows_to_load, "row"), sizes.rows_to_train),
           settings.origin("expansion_factor_real_data").where, "at least 1, or -1 for as many as are needed");
  }
  return sizes;
}

}  // namespace

BatchSizes batch_sizes(const Settings& settings, std::int64_t devices) {
  return sizes_of(settings, "per_device_batch_size", devices, settings.integer("gradient_accumulation_steps"));
}

BatchSizes evaluation_sizes(const Settings& settings, std::int64_t devices) {
  const bool has_own = settings.real("eval_per_device_batch_size") > 0;
  return sizes_of(settings, has_own ? "eval_per_device_batch_size" : "per_device_batch_size", devices, 1);
}

}  // namespace moesh::config
