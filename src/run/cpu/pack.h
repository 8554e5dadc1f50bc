// Lays operands of a product out as micro kernels read them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "run/cpu/simd.h"

namespace moesh::run::cpu {

struct Range {
  std::int64_t begin;
  std::int64_t end;
  std::int64_t size() const { return end - begin; }
};

// One neighbour after the other.
inline bool is_run(std::span<const std::int64_t> offsets, Range range) {
  for (std::int64_t i = range.begin + 1; i < range.end; ++i) {
    if (offsets[static_cast<std::size_t>(i)] != offsets[static_cast<std::size_t>(i - 1)] + 1) return false;
  }
  return true;
}

// An operand of one product: rows of a, or columns of b, and the depth.
template <typename T>
struct Lines {
  const T* data;
  std::span<const std::int64_t> lines;
  std::span<const std::int64_t> depth;
};

// Elements (depth, line) of a panel to out[depth * width + line], zeros up to the width.
template <typename T>
[[gnu::always_inline]] inline void pack_panel(const Lines<T>& of, Range panel, Range chunk, bool depth_is_run,
                                              std::int64_t width, Wide<T>* __restrict out) {
  const std::int64_t count = panel.size();
  const std::int64_t* lines = of.lines.data() + panel.begin;
  const std::int64_t* depth = of.depth.data() + chunk.begin;
  if (count < width) std::fill_n(out, chunk.size() * width, Wide<T>(0));
  if (depth_is_run) {
    for (std::int64_t i = 0; i < count; ++i) {
      const T* __restrict line = of.data + lines[i] + depth[0];
      for (std::int64_t p = 0; p < chunk.size(); ++p) out[p * width + i] = load(line[p]);
    }
  } else if (is_run(of.lines, panel)) {
    for (std::int64_t p = 0; p < chunk.size(); ++p) {
      const T* __restrict run = of.data + lines[0] + depth[p];
      for (std::int64_t i = 0; i < count; ++i) out[p * width + i] = load(run[i]);
    }
  } else {
    for (std::int64_t p = 0; p < chunk.size(); ++p) {
      for (std::int64_t i = 0; i < count; ++i) out[p * width + i] = load(of.data[lines[i] + depth[p]]);
    }
  }
}

// Panels of `width` lines over a chunk of the depth.
template <typename T>
void pack(Isa isa, const Lines<T>& of, Range lines, Range chunk, std::int64_t width, Wide<T>* out) {
  const bool depth_is_run = is_run(of.depth, chunk);
  for (std::int64_t begin = lines.begin; begin < lines.end; begin += width) {
    const Range panel{begin, std::min(begin + width, lines.end)};
    vectorised(isa, [&]() MOESH_LOOP { pack_panel(of, panel, chunk, depth_is_run, width, out); });
    out += width * chunk.size();
  }
}

}  // namespace moesh::run::cpu
