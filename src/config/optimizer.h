// The optimizer: opt_type.
#pragma once

#include "config/settings.h"

namespace moesh::config {

enum class Optimizer { adamw, adam_pax, sgd, muon };

Optimizer optimizer_of(const Settings& settings);

}  // namespace moesh::config
