// Whether the parameters are spread well enough for a run to be allowed.
#pragma once

#include "sharding/layout.h"

namespace moesh::sharding {

// Looks for a layout where more than sharding_tolerance of the parameters leave out an axis of the mesh that could shard
// them: any but data. As in MaxText, a parameter that leaves one out counts whole. Such a layout is refused where the key
// is given, and warned of where it has its default.
void check_tolerance(const Layout& layout, const config::Settings& settings);

}  // namespace moesh::sharding
