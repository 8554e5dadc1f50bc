// The part of a matrix of 8-bit numbers that has one scale.
#pragma once

#include <cstdint>

namespace moesh {

struct ScaledBlock {
  std::int64_t rows = 128, columns = 128;
  bool operator==(const ScaledBlock&) const = default;
};

}  // namespace moesh
