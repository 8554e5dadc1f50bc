// Packs the operands of a product into the layout that micro-kernels read. A line is a row of a, or a column of b.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "backend/cpu/micro_kernel.h"
#include "backend/cpu/offsets.h"
#include "backend/cpu/simd.h"
#include "base/rounding.h"

namespace moesh::backend::cpu {

struct Range {
  std::int64_t begin;
  std::int64_t end;
  std::int64_t size() const { return end - begin; }
};

// An operand of one product, addressed by line and depth.
template <typename T>
struct Lines {
  const T* data;
  std::span<const std::int64_t> lines;
  std::span<const std::int64_t> depth;
  bool lines_contiguous;  // whether neighbouring lines are adjacent in memory
  bool depth_contiguous;
};

// The layout of lines that are packed by step: panels of `lines` lines, [panel][step][line], with room for `width` lines and a depth of
// `depth`.
struct PanelShape {
  std::int64_t lines;
  std::int64_t width;  // a multiple of the lanes of a vector register
  std::int64_t depth;

  std::int64_t size() const { return width * depth; }
};

// Panels that are packed at once: enough to read much of each line of the depth in one go, yet with few places that are written to.
inline constexpr std::int64_t kMostPanels = 16;

// transpose_*: transposes lines whose depth is contiguous, eight with AVX2 and sixteen with AVX-512, and prefetches those that come next.
// `lines`, `next`: where they begin in `data`. pack_contiguous_*: packs lines that are adjacent in memory; further lines that exist,
// `ahead` of them in all, may be packed as well.
#define MOESH_PACK(T, P, isa)                                                                                                           \
  void transpose_##isa(const T* data, const std::int64_t* lines, const std::int64_t* next, std::int64_t depth, const PanelShape& panel, \
                       P* out);                                                                                                         \
  void pack_contiguous_##isa(const T* data, std::int64_t count, std::int64_t ahead, const std::int64_t* depth, std::int64_t size,       \
                             PanelShape panel, P* out)
MOESH_PACK(float, float, avx2);
MOESH_PACK(bfloat16, float, avx2);
MOESH_PACK(float, float, avx512);
MOESH_PACK(bfloat16, float, avx512);
MOESH_PACK(bfloat16, bfloat16, avx512);
#undef MOESH_PACK

// A result of at least this size is written with non-temporal stores, because the caches would not hold it until it is read.
inline constexpr std::int64_t kStreamingBytes = 8 * 1024 * 1024;

// Must be called before other threads read what was written with non-temporal stores. It waits for memory; one call covers all stores
// before it.
inline void fence_streaming_stores() {
#if defined(__x86_64__)
  __builtin_ia32_sfence();
#endif
}

// Pack AMX tiles with `room` for the depth: from lines whose depth is contiguous, or transposed from lines that are adjacent in memory.
void pack_tiles_avx512(const bfloat16* data, const std::int64_t* lines, std::int64_t count, std::int64_t depth, std::int64_t room,
                       bfloat16* out);
void pack_tiles_transposed_avx512(const bfloat16* data, std::int64_t count, const std::int64_t* depth, std::int64_t size, std::int64_t room,
                                  bfloat16* out);

// Packs lines of an operand. Missing lines hold unspecified values; the depth is padded with zeros.
template <typename P, typename T>
class Packer {
  static constexpr std::int64_t kTogether = MicroKernels<P>::kTogether;

 public:
  Packer(Isa isa, const MicroKernels<P>& kernels, std::int64_t room) : isa_(isa), kernels_(kernels), room_(room) {}

  // `of_block`: rows of a block, at most those of the kernels.
  void rows(const Lines<T>& of, Range lines, Range chunk, std::int64_t of_block, P* out) const {
    if (kernels_.row_room == 0) return tiles(of, lines, chunk, out);
    panels(of, lines, chunk, {of_block, kernels_.row_room, room_}, out);
  }
  void columns(const Lines<T>& of, Range lines, Range chunk, P* out) const {
    panels(of, lines, chunk, {kernels_.columns, kernels_.columns, room_}, out);
  }

 private:
  static P converted(T value) {
    if constexpr (std::is_same_v<P, T>) return value;
    else return store<P>(load(value));
  }
  static const T* first_of(const Lines<T>& of, Range lines) { return of.data + of.lines[static_cast<std::size_t>(lines.begin)]; }
  static bool are_contiguous(const Lines<T>& of, Range lines) {
    return of.lines_contiguous ||
           is_contiguous(of.lines.subspan(static_cast<std::size_t>(lines.begin), static_cast<std::size_t>(lines.size())));
  }

  void tiles(const Lines<T>& of, Range lines, Range chunk, P* out) const {
    const std::int64_t* depth = of.depth.data() + chunk.begin;
#if defined(__x86_64__)
    if constexpr (std::is_same_v<P, bfloat16>) {
      if (chunk.size() > 0 && lines.size() > 0 && of.depth_contiguous) {
        const std::int64_t* const first = of.lines.data() + lines.begin;
        return pack_tiles_avx512(of.data + depth[0], first, lines.size(), chunk.size(), room_, out);
      }
      if (lines.size() > 0 && are_contiguous(of, lines)) {
        return pack_tiles_transposed_avx512(first_of(of, lines), lines.size(), depth, chunk.size(), room_, out);
      }
    }
#endif
    const std::int64_t end = round_up(chunk.size(), kTileDepth);
    for (std::int64_t i = 0; i < lines.size(); ++i) {
      const T* from = of.data + of.lines[static_cast<std::size_t>(lines.begin + i)];
      P* const to = out + i / kTileRows * kTileRows * room_ + i % kTileRows * kTileDepth;
      for (std::int64_t p = 0; p < end; ++p) {
        to[p / kTileDepth * kTileRows * kTileDepth + p % kTileDepth] = p < chunk.size() ? converted(from[depth[p]]) : P();
      }
    }
  }

  void panels(const Lines<T>& of, Range lines, Range chunk, PanelShape shape, P* out) const {
    if (chunk.size() > 0 && lines.size() > 0) lay_panels(of, lines, chunk, shape, out);
    const std::int64_t packed = round_up(chunk.size(), kTogether), end = round_up(chunk.size(), kernels_.depth_step);
    if (packed == end) return;
    for (std::int64_t line = 0; line < lines.size(); line += shape.lines, out += shape.size()) {
      std::fill(out + packed * shape.width, out + end * shape.width, P());
    }
  }

  void lay_panels(const Lines<T>& of, Range range, Range chunk, PanelShape shape, P* out) const {
    const std::int64_t* lines = of.lines.data() + range.begin;
    const std::int64_t* depth = of.depth.data() + chunk.begin;
#if defined(__x86_64__)
    if constexpr (!std::is_same_v<T, double>) {
      const auto there = static_cast<std::int64_t>(of.lines.size()) - range.begin;
      if (isa_ != Isa::portable && are_contiguous(of, range)) {
        return pack_contiguous(of.data + lines[0], range.size(), of.lines_contiguous ? there : range.size(), depth, chunk.size(), shape,
                               out);
      }
      if (isa_ != Isa::portable && of.depth_contiguous) {
        return pack_transposed(of.data + depth[0], lines, range.size(), there, chunk.size(), shape, out);
      }
    }
#endif
    for (std::int64_t i = 0; i < range.size(); ++i) {
      P* const to = out + i / shape.lines * shape.size() + i % shape.lines * kTogether;
      for (std::int64_t p = 0; p < chunk.size(); ++p) {
        to[p / kTogether * kTogether * shape.width + p % kTogether] = converted(of.data[lines[i] + depth[p]]);
      }
      if (chunk.size() % kTogether != 0) to[chunk.size() / kTogether * kTogether * shape.width + 1] = P();
    }
  }

#if defined(__x86_64__)
  void pack_transposed(const T* data, const std::int64_t* lines, std::int64_t count, std::int64_t ahead, std::int64_t depth,
                       PanelShape shape, P* out) const {
    const auto by = [&]<std::int64_t kLines>(auto transpose) {
      std::int64_t last[kLines];  // the last lines, if fewer than kLines are left
      for (std::int64_t first = 0; first < count; first += shape.lines, out += shape.size()) {
        const std::int64_t end = std::min(first + shape.lines, count);
        for (std::int64_t group = first; group < end; group += kLines) {
          const std::int64_t* here = lines + group;
          if (group + kLines > count) {
            for (std::int64_t i = 0; i < kLines; ++i) last[i] = lines[std::min(group + i, count - 1)];
            here = last;
          }
          const std::int64_t after = group + shape.lines;
          transpose(data, here, after + kLines <= ahead ? lines + after : here, depth, shape, out + (group - first) * kTogether);
        }
      }
    };
    if constexpr (!std::is_same_v<P, bfloat16>) {
      if (isa_ == Isa::avx2) return by.template operator()<8>([](const auto&... of) { transpose_avx2(of...); });
    }
    by.template operator()<16>([](const auto&... of) { transpose_avx512(of...); });
  }

  void pack_contiguous(const T* data, std::int64_t count, std::int64_t ahead, const std::int64_t* depth, std::int64_t size,
                       PanelShape shape, P* out) const {
    if constexpr (!std::is_same_v<P, bfloat16>) {
      if (isa_ == Isa::avx2) return pack_contiguous_avx2(data, count, ahead, depth, size, shape, out);
    }
    pack_contiguous_avx512(data, count, ahead, depth, size, shape, out);
  }
#endif

  Isa isa_;
  const MicroKernels<P>& kernels_;
  std::int64_t room_;  // for the depth of packed lines
};

// Transposes `lines` lines of `depth` elements, to[j][i] = from[i][j], each side at its pitch.
template <typename W>
void transpose_lines(Isa isa, const W* from, std::int64_t from_pitch, std::int64_t lines, std::int64_t depth, W* to,
                     std::int64_t to_pitch) {
  std::int64_t done = 0;
#if defined(__x86_64__)
  if constexpr (std::is_same_v<W, float>) {
    const auto by = [&]<std::int64_t kLines>(auto transpose) {
      std::int64_t line[kLines];
      for (std::int64_t i = 0; i < kLines; ++i) line[i] = i * from_pitch;
      for (; done + kLines <= lines; done += kLines) {
        transpose(from + done * from_pitch, line, line, depth, PanelShape{kLines, to_pitch, depth}, to + done);
      }
    };
    if (isa >= Isa::avx512)
      by.template operator()<16>([](const auto&... of) { transpose_avx512(of...); });
    else if (isa == Isa::avx2)
      by.template operator()<8>([](const auto&... of) { transpose_avx2(of...); });
  }
#endif
  for (; done < lines; ++done) {
    for (std::int64_t j = 0; j < depth; ++j) to[j * to_pitch + done] = from[done * from_pitch + j];
  }
}

}  // namespace moesh::backend::cpu
