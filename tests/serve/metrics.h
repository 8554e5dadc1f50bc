// Reads the figures that a server tells of itself.
#pragma once

#include <cstdint>
#include <string>

#include "base/text.h"

namespace moesh::test {

// The figure of this name in the text of /metrics; 0 if there is none.
inline std::int64_t metric_of(const std::string& metrics, const std::string& name) {
  for (const std::string& line : split(metrics, '\n')) {
    if (line.starts_with(name + " ")) return parse_integer(line.substr(name.size() + 1)).value_or(-1);
  }
  return 0;
}

}  // namespace moesh::test
