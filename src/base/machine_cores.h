// How many cores this process may keep busy.
#pragma once

#include <string>

namespace moesh {

// Those that it may run on, or fewer where a container's share of their time, rounded up, is less. `root`: where /proc and /sys lie.
int usable_cores(const std::string& root = "");

}  // namespace moesh
