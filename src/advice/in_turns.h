// Which keys let parts of the batch take turns in layers with experts.
#pragma once

#include <cstdint>

#include "config/keys.h"
#include "sharding/layout.h"

namespace moesh::advice {

// The keys for so many parts, with which the experts' weights stay where they are. Empty if rules would have to change that the command
// line cannot change.
config::Keys in_turns(const sharding::Layout& layout, std::int64_t parts);

}  // namespace moesh::advice
