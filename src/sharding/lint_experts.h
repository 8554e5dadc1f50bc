// Checks how tokens get to their experts.
#pragma once

#include "sharding/lint.h"

namespace moesh::sharding {

std::vector<Finding> lint_experts(const Layout& layout);

}  // namespace moesh::sharding
