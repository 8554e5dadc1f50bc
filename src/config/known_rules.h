// The rules that come with moesh: those of the base file, the rule sets and the models.
#pragma once

#include <vector>

#include "config/settings.h"

namespace moesh::config {

std::vector<AxisRule> known_rules();

}  // namespace moesh::config
