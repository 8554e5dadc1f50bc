// Packing with AVX-512: sixteen lines by sixteen words of the depth at a time. A word is a float32, or two bfloat16 that are neighbours
// along the depth.
#include "backend/cpu/pack.h"

#if defined(__x86_64__)
#include "backend/cpu/intrinsics.h"

#include <cstring>

#include "backend/cpu/lanes_avx512.h"

#define MOESH_INLINE [[gnu::target("avx512f,avx512bw"), gnu::always_inline]] inline
#define MOESH_TARGET [[gnu::target("avx512f,avx512bw")]]

namespace moesh::backend::cpu {
namespace {

constexpr std::int64_t kWords = 16;  // words of a register

// `along`: sixteen words of one line. `across`: one word of each of sixteen lines that are adjacent in memory, as far as `which` selects
// them. The second elements of bfloat16 words are at `second`, or zeros if that is null.
struct Floats {
  static constexpr std::int64_t kElements = 1;  // elements of a word
  MOESH_INLINE static __m512i along(const float* line) { return _mm512_loadu_si512(line); }
  MOESH_INLINE static __m512i across(const float* first, const float*, __mmask16 which) { return _mm512_maskz_loadu_epi32(which, first); }
};
struct WidenedFloats {
  static constexpr std::int64_t kElements = 1;
  MOESH_INLINE static __m512i along(const bfloat16* line) {
    return _mm512_slli_epi32(widened(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(line))), 16);
  }
  MOESH_INLINE static __m512i across(const bfloat16* first, const bfloat16*, __mmask16 which) {
    return _mm512_slli_epi32(widened(read_16(first, which)), 16);
  }
};
struct Pairs {
  static constexpr std::int64_t kElements = 2;
  MOESH_INLINE static __m512i along(const bfloat16* line) { return _mm512_loadu_si512(line); }
  MOESH_INLINE static __m512i across(const bfloat16* first, const bfloat16* second, __mmask16 which) {
    const __m512i low = widened(read_16(first, which));
    return second == nullptr ? low : _mm512_or_si512(low, _mm512_slli_epi32(widened(read_16(second, which)), 16));
  }
};

// Transposes sixteen words of sixteen lines: four of them go to each place of `to`, `pitch` bytes apart. Each line is read once, as a
// whole, because the L1 cache holds few of the lines if they are a power of two apart.
template <typename Words, typename T>
MOESH_INLINE void transpose(const T* data, const std::int64_t* line, std::byte* const (&to)[4], std::int64_t pitch) {
  __m512i words[4][4];  // quarter q of [i][j] holds word 4 q + j of lines 4 i to 4 i + 3
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512i x0 = Words::along(data + line[4 * i]), x1 = Words::along(data + line[4 * i + 1]);
    const __m512i x2 = Words::along(data + line[4 * i + 2]), x3 = Words::along(data + line[4 * i + 3]);
    const __m512i a = _mm512_unpacklo_epi32(x0, x1), b = _mm512_unpackhi_epi32(x0, x1);
    const __m512i c = _mm512_unpacklo_epi32(x2, x3), d = _mm512_unpackhi_epi32(x2, x3);
    words[i][0] = _mm512_unpacklo_epi64(a, c);
    words[i][1] = _mm512_unpackhi_epi64(a, c);
    words[i][2] = _mm512_unpacklo_epi64(b, d);
    words[i][3] = _mm512_unpackhi_epi64(b, d);
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const __m512i a = _mm512_shuffle_i32x4(words[0][j], words[1][j], 0x44), b = _mm512_shuffle_i32x4(words[2][j], words[3][j], 0x44);
    const __m512i c = _mm512_shuffle_i32x4(words[0][j], words[1][j], 0xEE), d = _mm512_shuffle_i32x4(words[2][j], words[3][j], 0xEE);
    _mm512_storeu_si512(to[0] + j * pitch, _mm512_shuffle_i32x4(a, b, 0x88));
    _mm512_storeu_si512(to[1] + j * pitch, _mm512_shuffle_i32x4(a, b, 0xDD));
    _mm512_storeu_si512(to[2] + j * pitch, _mm512_shuffle_i32x4(c, d, 0x88));
    _mm512_storeu_si512(to[3] + j * pitch, _mm512_shuffle_i32x4(c, d, 0xDD));
  }
}

template <typename Words, typename T>
MOESH_INLINE void transpose(const T* data, const std::int64_t* line, std::byte* to, std::int64_t pitch) {
  transpose<Words>(data, line, {to, to + 4 * pitch, to + 8 * pitch, to + 12 * pitch}, pitch);
}

constexpr std::int64_t kShortDepth = 256;  // bytes: sixteen lines that come next then fit the L1 cache beside these

template <typename Words, typename T, typename P>
MOESH_TARGET void transpose_sixteen(const T* data, const std::int64_t* lines, const std::int64_t* next, std::int64_t depth,
                                    std::int64_t width, P* out) {
  constexpr std::int64_t kBlock = kWords * Words::kElements;
  const std::int64_t pitch = width * 4;
  const bool is_short = depth * static_cast<std::int64_t>(sizeof(T)) <= kShortDepth;
  auto* const to = reinterpret_cast<std::byte*>(out);
  std::int64_t p = 0;
  for (; p + kBlock <= depth; p += kBlock) {
    const T* const here = data + p;
    transpose<Words>(here, lines, to + p / Words::kElements * pitch, pitch);
    if (is_short) {
      for (int i = 0; i < 16; ++i) _mm_prefetch(here + next[i], _MM_HINT_T0);
    } else {
      for (int i = 0; i < 16; ++i) _mm_prefetch(here + next[i], _MM_HINT_T1);
    }
  }
  if (p == depth) return;
  T ends[16 * kBlock] = {};
  std::int64_t end[16];
  for (std::int64_t i = 0; i < 16; ++i) {
    end[i] = i * kBlock;
    std::memcpy(ends + end[i], data + lines[i] + p, static_cast<std::size_t>(depth - p) * sizeof(T));
  }
  std::byte transposed[16 * 64];
  transpose<Words>(ends, end, transposed, 64);
  const std::int64_t words = divide_up(depth - p, Words::kElements);
  for (std::int64_t i = 0; i < words; ++i) std::memcpy(to + (p / Words::kElements + i) * pitch, transposed + i * 64, 64);
}

// Packs one word of each of thirty-two lines that are adjacent in memory.
MOESH_INLINE void lay_pairs(const bfloat16* first, const bfloat16* second, bfloat16* to) {
  const __m512i front = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11), back = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
  const __m512i a = _mm512_loadu_si512(first), b = _mm512_loadu_si512(second);
  const __m512i low = _mm512_unpacklo_epi16(a, b), high = _mm512_unpackhi_epi16(a, b);
  _mm512_storeu_si512(to, _mm512_permutex2var_epi64(low, front, high));
  _mm512_storeu_si512(to + 32, _mm512_permutex2var_epi64(low, back, high));
}

// Packs one word of each of the sixteen lines from `line` on, as far as `which` selects them.
template <typename Words, typename T, typename P>
MOESH_INLINE void lay_sixteen(const T* first, const T* second, std::int64_t line, __mmask16 which, P* to) {
  _mm512_storeu_si512(to, Words::across(first + line, second == nullptr ? nullptr : second + line, which));
}

// Prefetch distance along the depth. The lines of the depth are not adjacent in memory, so that the hardware does not prefetch the next
// ones.
constexpr std::int64_t kDepthAhead = 8;

// Packs `lines`, of which `ahead` exist. `out`: where the panel of the first of them begins.
template <typename Words, typename T, typename P>
MOESH_INLINE void pack_lines(const T* data, Range lines, std::int64_t ahead, const std::int64_t* depth, Range of_depth, PanelShape panel,
                             P* out) {
  if (lines.size() == 0) return;
  for (std::int64_t p = of_depth.begin; p < of_depth.end; p += Words::kElements) {
    const T* first = data + depth[p];
    const T* second = p + Words::kElements <= of_depth.end ? data + depth[p + Words::kElements - 1] : nullptr;
    P* to = out + p * panel.width;
    for (std::int64_t next = p + kDepthAhead; next < std::min(p + kDepthAhead + Words::kElements, of_depth.end); ++next) {
      prefetch(data + depth[next] + lines.begin, lines.size());
    }
    for (std::int64_t line = lines.begin; line < lines.end; line += panel.lines, to += panel.size()) {
      const std::int64_t there = std::min(panel.width, ahead - line);
      std::int64_t group = 0;
      for (; group + 16 <= there; group += 16) lay_sixteen<Words>(first, second, line + group, 0xFFFF, to + group * Words::kElements);
      if (group < there) lay_sixteen<Words>(first, second, line + group, first_of_16(there - group), to + group * Words::kElements);
    }
  }
}

// The same for pairs of the depth in whole panels of 32 lines.
MOESH_INLINE void pack_pairs(const bfloat16* data, std::int64_t panels, const std::int64_t* depth, std::int64_t pairs,
                             std::int64_t of_panel, bfloat16* out) {
  for (std::int64_t pair = 0; pair < pairs; ++pair, out += 2 * 32) {
    const std::int64_t* const here = depth + 2 * pair;
    for (std::int64_t panel = 0; panel < panels; ++panel) {
      const bfloat16* const lines = data + 32 * panel;
      lay_pairs(lines + here[0], lines + here[1], out + panel * of_panel);
    }
  }
}

template <typename Words, typename T, typename P>
MOESH_TARGET void pack_contiguous(const T* data, std::int64_t count, std::int64_t ahead, const std::int64_t* depth, std::int64_t size,
                                  PanelShape panel, P* out) {
  for (std::int64_t begin = 0; begin < count; begin += kMostPanels * panel.lines, out += kMostPanels * panel.size()) {
    const Range lines{begin, std::min(begin + kMostPanels * panel.lines, count)};
    std::int64_t of_pairs = 0;
    if constexpr (std::is_same_v<Words, Pairs>) {
      if (panel.lines == 32 && panel.width == 32) {
        of_pairs = round_down(std::min(lines.end, ahead) - begin, 32);
        pack_pairs(data + begin, of_pairs / 32, depth, size / 2, panel.size(), out);
        pack_lines<Words>(data, {begin, begin + of_pairs}, ahead, depth, {round_down(size, 2), size}, panel, out);
      }
    }
    pack_lines<Words>(data, {begin + of_pairs, lines.end}, ahead, depth, {0, size}, panel, out + of_pairs / 32 * panel.size());
  }
}

}  // namespace

#define MOESH_PACK(T, P, WORDS)                                                                                                          \
  void transpose_avx512(const T* data, const std::int64_t* lines, const std::int64_t* next, std::int64_t depth, const PanelShape& panel, \
                        P* out) {                                                                                                        \
    transpose_sixteen<WORDS>(data, lines, next, depth, panel.width, out);                                                                \
  }                                                                                                                                      \
  void pack_contiguous_avx512(const T* data, std::int64_t count, std::int64_t ahead, const std::int64_t* depth, std::int64_t size,       \
                              PanelShape panel, P* out) {                                                                                \
    pack_contiguous<WORDS>(data, count, ahead, depth, size, panel, out);                                                                 \
  }
MOESH_PACK(float, float, Floats)
MOESH_PACK(bfloat16, float, WidenedFloats)
MOESH_PACK(bfloat16, bfloat16, Pairs)
#undef MOESH_PACK

MOESH_TARGET void pack_tiles_avx512(const bfloat16* data, const std::int64_t* lines, std::int64_t count, std::int64_t depth,
                                    std::int64_t room, bfloat16* out) {
  constexpr std::int64_t kTile = kTileRows * kTileDepth;
  const std::int64_t whole = depth / kTileDepth * kTileDepth;
  const auto rest = static_cast<__mmask32>((1u << (depth - whole)) - 1);
  for (std::int64_t i = 0; i < count; ++i) {
    const bfloat16* const from = data + lines[i];
    bfloat16* const to = out + i / kTileRows * kTileRows * room + i % kTileRows * kTileDepth;
    const auto at = [&](std::int64_t p) { return to + p / kTileDepth * kTile; };
    for (std::int64_t p = 0; p < whole; p += kTileDepth) _mm512_storeu_si512(at(p), _mm512_loadu_si512(from + p));
    if (rest != 0) _mm512_storeu_si512(at(whole), _mm512_maskz_loadu_epi16(rest, from + whole));
  }
}

namespace {

// Packs two tiles of lines, some of which may be missing; at each element of the depth, their elements are one cache line. Neighbours along
// the depth are interleaved into pairs across the lines, and the lines that are then in one quarter of a register are transposed to where
// they belong.
MOESH_TARGET void transpose_two_tiles(const bfloat16* data, __mmask32 which, const std::int64_t* depth, std::int64_t size, std::byte* to,
                                      std::byte* beside) {
  constexpr auto kRow = kTileDepth * static_cast<std::int64_t>(sizeof(bfloat16));
  alignas(64) float low[16 * 16], high[16 * 16];
  std::int64_t rows[16];
  for (std::int64_t word = 0; word < 16; ++word) {
    const __m512i a = 2 * word < size ? _mm512_maskz_loadu_epi16(which, data + depth[2 * word]) : _mm512_setzero_si512();
    const __m512i b = 2 * word + 1 < size ? _mm512_maskz_loadu_epi16(which, data + depth[2 * word + 1]) : _mm512_setzero_si512();
    rows[word] = 16 * word;
    _mm512_store_si512(low + rows[word], _mm512_unpacklo_epi16(a, b));
    _mm512_store_si512(high + rows[word], _mm512_unpackhi_epi16(a, b));
  }
  transpose<Floats>(low, rows, {to, to + 8 * kRow, beside, beside + 8 * kRow}, kRow);
  transpose<Floats>(high, rows, {to + 4 * kRow, to + 12 * kRow, beside + 4 * kRow, beside + 12 * kRow}, kRow);
}

// Prefetch distance along the depth: its lines are far apart, and no hardware prefetches them.
constexpr std::int64_t kTransposedAhead = 128;

}  // namespace

// All lines advance along the depth together, so that what is adjacent in memory is read at once.
MOESH_TARGET void pack_tiles_transposed_avx512(const bfloat16* data, std::int64_t count, const std::int64_t* depth, std::int64_t size,
                                               std::int64_t room, bfloat16* out) {
  constexpr std::int64_t kLines = 2 * kTileRows;
  for (std::int64_t p = 0; p < size; p += kTileDepth) {
    const Range ahead{p + kTransposedAhead, std::min(p + kTransposedAhead + kTileDepth, size)};
    for (std::int64_t next = ahead.begin; next < ahead.end; ++next) prefetch(data + depth[next], count);
    for (std::int64_t begin = 0; begin < count; begin += kLines) {
      const auto which = first_of_32(count - begin);
      bfloat16* const to = out + begin * room + p * kTileRows;
      transpose_two_tiles(data + begin, which, depth + p, size - p, reinterpret_cast<std::byte*>(to),
                          reinterpret_cast<std::byte*>(to + kTileRows * room));
    }
  }
}

}  // namespace moesh::backend::cpu
#endif
