// Few rows times many columns of b, which is read in place, with the same bits as AMX gives.
#pragma once

#include <cstdint>

#include "base/bfloat16.h"

namespace moesh::backend::cpu {

struct TileStrip {
  std::int64_t depth = 0;
  std::int64_t rows = 0;     // at most kMostRows
  std::int64_t columns = 0;  // contiguous in b
  const float* a = nullptr;  // [depth][row]
  const bfloat16* b = nullptr;
  std::int64_t b_pitch = 0;        // from one line of the depth to the next
  const bfloat16* next = nullptr;  // lines that are likely read after those of b, at the same pitch
  float* c = nullptr;              // accumulated into
  std::int64_t c_pitch = 0;

  static constexpr std::int64_t kMostRows = 4;
};

void multiply_tile_strip(const TileStrip& strip);

}  // namespace moesh::backend::cpu
