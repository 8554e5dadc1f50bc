// The sizes of moesh's mesh axes: those of a translation, and those that the user gives beside it, which come first.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "foreign/translation.h"

namespace moesh::foreign {

struct AxisSize {
  std::string_view name;  // as in the keys: "pipeline" for ici_pipeline_parallelism and dcn_pipeline_parallelism
  std::int64_t ici = 1;
  std::int64_t dcn = 1;
};

std::int64_t slices_of(const Translation& translation);

// Whether the user names the size of any mesh axis.
bool sizes_axes(const Translation& translation);

// Joins the slices along the first axis whose size their number divides.
void spread_slices(std::vector<AxisSize>& sizes, const Translation& translation);

// Spreads the slices, and puts the user's sizes in place of those of the translation. `rest`: the axis that takes the devices that the
// others leave, unless the user gives its size; empty if there is none. `count`: the number of devices, if it is known. Returns the number
// of devices of the mesh.
std::int64_t take_own_sizes(std::vector<AxisSize>& sizes, std::string_view rest, std::optional<std::int64_t> count,
                            const Translation& translation);

// The size of an axis, over all slices.
std::int64_t size_of(const std::vector<AxisSize>& sizes, std::string_view name);

void give_sizes(const std::vector<AxisSize>& sizes, Translation& translation);

}  // namespace moesh::foreign
