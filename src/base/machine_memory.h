// How much memory this process has and may still take.
#pragma once

#include <cstdint>
#include <string>

namespace moesh {

struct FreeMemory {
  std::int64_t bytes = 0;
  std::string where;  // whose limit is the nearest: "the machine", or the file that sets a container's
};

// What may be taken before the kernel kills: of the machine's memory, and under the limits of the control groups that this process
// belongs to. Nothing known is no bytes and no name. `root`: where /proc and /sys lie.
FreeMemory free_memory(const std::string& root = "");

std::int64_t resident_memory();  // of this process, in bytes

}  // namespace moesh
