// Lays operands of a product out as micro kernels read them: panels of lines (rows of a, or columns of b), and in a
// panel [step][line][element of the step].
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "backend/cpu/micro_kernel.h"
#include "backend/cpu/simd.h"

namespace moesh::backend::cpu {

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

// An operand of one product.
template <typename T>
struct Lines {
  const T* data;
  std::span<const std::int64_t> lines;
  std::span<const std::int64_t> depth;
};

// What a packed panel may write behind its end, in elements.
inline constexpr std::int64_t kPackSlack = 16;

// `count` lines whose depth runs; of the lines behind them, up to `ahead`, some are fetched into the cache.
// Or `count` lines that run, of any depth; an odd last one of bfloat16 pairs is left out.
#define MOESH_PACK(T, P)                                                                                    \
  void pack_turned_avx2(const T* data, const std::int64_t* lines, std::int64_t count, std::int64_t ahead,   \
                        std::int64_t depth, std::int64_t width, P* out);                                    \
  void pack_straight_avx2(const T* data, std::int64_t count, const std::int64_t* depth, std::int64_t steps, \
                          std::int64_t width, P* out)
MOESH_PACK(float, float);
MOESH_PACK(bfloat16, float);
MOESH_PACK(bfloat16, bfloat16);
#undef MOESH_PACK

// Any layout, from element `p` of the depth on.
template <typename P, typename T>
void pack_elements(const Lines<T>& of, Range panel, Range chunk, std::int64_t p, std::int64_t width,
                   P* __restrict out) {
  constexpr std::int64_t kStep = MicroKernels<P>::kStep;
  const std::int64_t count = panel.size();
  const std::int64_t* lines = of.lines.data() + panel.begin;
  const std::int64_t* depth = of.depth.data() + chunk.begin;
  const std::int64_t steps = (chunk.size() + kStep - 1) / kStep;
  std::fill(out + p / kStep * kStep * width, out + steps * kStep * width, P());
  for (; p < chunk.size(); ++p) {
    P* __restrict to = out + p / kStep * kStep * width + p % kStep;
    for (std::int64_t i = 0; i < count; ++i) to[i * kStep] = store<P>(load(of.data[lines[i] + depth[p]]));
  }
}

// A panel of `width` lines at most; lines up to the width hold anything.
template <typename P, typename T>
void pack_panel(Isa isa, const Lines<T>& of, Range panel, Range chunk, bool depth_is_run, std::int64_t width, P* out) {
  std::int64_t done = 0;
#if defined(__x86_64__)
  if constexpr (!std::is_same_v<T, double>) {
    const std::int64_t* lines = of.lines.data() + panel.begin;
    const std::int64_t* depth = of.depth.data() + chunk.begin;
    const auto all = static_cast<std::int64_t>(of.lines.size());
    if (isa != Isa::portable && depth_is_run) {
      return pack_turned_avx2(of.data + depth[0], lines, panel.size(), all - panel.begin, chunk.size(), width, out);
    }
    if (isa != Isa::portable && is_run(of.lines, panel)) {
      // The next lines may be packed as well where that makes the last group of eight whole.
      const Range more{panel.begin, std::min((panel.size() + 7) / 8 * 8 + panel.begin, all)};
      const std::int64_t count = is_run(of.lines, more) ? more.size() : panel.size();
      const std::int64_t steps = chunk.size() / MicroKernels<P>::kStep;
      pack_straight_avx2(of.data + lines[0], count, depth, steps, width, out);
      done = steps * MicroKernels<P>::kStep;
    }
  }
#endif
  if (done < chunk.size()) pack_elements(of, panel, chunk, done, width, out);
}

// Panels of `width` lines over a chunk of the depth.
template <typename P, typename T>
void pack(Isa isa, const Lines<T>& of, Range lines, Range chunk, std::int64_t width, P* out) {
  if (chunk.size() == 0) return;
  const bool depth_is_run = is_run(of.depth, chunk);
  const std::int64_t steps = (chunk.size() + MicroKernels<P>::kStep - 1) / MicroKernels<P>::kStep;
  for (std::int64_t begin = lines.begin; begin < lines.end; begin += width) {
    const Range panel{begin, std::min(begin + width, lines.end)};
    pack_panel(isa, of, panel, chunk, depth_is_run, width, out);
    out += width * steps * MicroKernels<P>::kStep;
  }
}

}  // namespace moesh::backend::cpu
