// A small hardware file, and the same with other lines.
#pragma once

#include <string>

#include "base/text.h"

namespace moesh::mesh {

inline const std::string kValid =
    "title: A chip\n"
    "source: a datasheet\n"
    "bf16_flops_per_second: 1e14\n"
    "memory_bytes: 1000\n"
    "memory_bytes_per_second: 1e12\n"
    "links:\n"
    "  - {kind: ici, domain: slice, bytes_per_second: 1e11, latency_seconds: 1e-6}\n"
    "  - {kind: dcn, domain: all, bytes_per_second: 1e9, latency_seconds: 1e-5}\n"
    "sizes: {grids: [2x2, 4x4]}\n";

// The valid file with the line that starts with `start` replaced, or left out when `line` is empty.
inline std::string with_line(const std::string& start, const std::string& line) {
  std::string text;
  for (const std::string& old : split(std::string(trim(kValid)), '\n')) {
    const std::string kept = old.starts_with(start) ? line : old;
    if (!kept.empty()) text += kept + "\n";
  }
  return text;
}

}  // namespace moesh::mesh
