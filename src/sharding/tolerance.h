// Whether the parameters are spread well enough for a run to be allowed.
#pragma once

#include <vector>

#include "sharding/layout.h"

namespace moesh::sharding {

// A parameter that leaves out axes of the mesh which could shard it.
struct LeftOut {
  const LaidTensor* tensor = nullptr;
  AxisList axes;
};

struct Unspread {
  double share = 0;                // of the parameters; as in MaxText, one that leaves an axis out counts whole
  std::vector<LeftOut> parameters;  // the largest first
};

// Any axis but data could shard parameters.
Unspread unspread(const Layout& layout);

// Looks for a layout where more than sharding_tolerance of the parameters leave out an axis of the mesh that could shard
// them. Such a layout is refused where the key is given, and warned of where it has its default.
void check_tolerance(const Layout& layout, const config::Settings& settings);

}  // namespace moesh::sharding
