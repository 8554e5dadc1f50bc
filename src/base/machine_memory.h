// How much memory this process uses and how much more it may take.
#pragma once

#include <cstdint>
#include <string>

namespace moesh {

struct FreeMemory {
  std::int64_t bytes = 0;
  std::string where;  // the source of the tightest limit: "the machine", or the file that sets a container's limit
};

// How much may be taken before the kernel kills the process: the machine's available memory, or less under the limits of the control groups
// that this process belongs to. If nothing is known, `bytes` is 0 and `where` is empty. `root`: the folder that /proc and /sys are in.
FreeMemory free_memory(const std::string& root = "");

std::int64_t resident_memory();  // of this process, in bytes

}  // namespace moesh
