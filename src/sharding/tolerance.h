// Whether the parameters are spread well enough for a run to be allowed.
#pragma once

#include "sharding/layout.h"

namespace moesh::sharding {

// Refuses a layout where more than this share of the parameters leaves out an axis of the mesh that could shard it: any
// but data. As in MaxText, a parameter that leaves one out counts whole.
void check_tolerance(const Layout& layout, double tolerance, const std::string& where);

}  // namespace moesh::sharding
