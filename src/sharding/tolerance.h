// Checks that the parameters are sharded well enough for a run to be allowed.
#pragma once

#include <vector>

#include "sharding/layout.h"

namespace moesh::sharding {

// A parameter that is not sharded over some axes of the mesh that could shard it.
struct LeftOut {
  const LaidTensor* tensor = nullptr;
  AxisList axes;
};

struct Unspread {
  double share = 0;                // of all parameters' elements; as in MaxText, a parameter that leaves an axis out counts as a whole
  std::vector<LeftOut> parameters;  // the largest first
};

// The parameters that leave out an axis that could shard them. tolerance.cc lists these axes; data is not one of them.
Unspread unspread(const Layout& layout);

// Checks whether more than the share sharding_tolerance of the parameters leaves out an axis of the mesh that could shard them. Such a
// layout is refused if the request gives sharding_tolerance, and causes a warning if it has its default.
void check_tolerance(const Layout& layout, const config::Settings& settings);

}  // namespace moesh::sharding
