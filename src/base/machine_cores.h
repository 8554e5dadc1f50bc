// How many cores this process may keep busy, and which of them a thread is on.
#pragma once

#include <string>

namespace moesh {

// Those that it may run on, or fewer where a container's share of their time, rounded up, is less. `root`: where /proc
// and /sys lie.
int usable_cores(const std::string& root = "");

// The core that the calling thread runs on, or -1 where the machine does not tell.
int current_core();

// Moves the calling thread away from this core, if there is another that it may run on; it stays free to come back.
void leave_core(int core);

}  // namespace moesh
