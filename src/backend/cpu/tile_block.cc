#include "backend/cpu/tile_block.h"

#if defined(__x86_64__)
#include "backend/cpu/intrinsics.h"

#include <algorithm>

#include "backend/cpu/cache_line.h"
#include "backend/cpu/tile_instructions.h"
#include "base/rounding.h"

#define MOESH_TARGET [[gnu::target("avx512f,avx512bw,avx512bf16,prfchw")]]
#define MOESH_INLINE [[gnu::target("avx512f,avx512bw,avx512bf16,prfchw"), gnu::always_inline]] inline
#define MOESH_STORE __attribute__((target("avx512f,avx512bw,avx512bf16,prfchw"), always_inline))

namespace moesh::backend::cpu {
namespace {

using InTiles = TilePipeline::InTiles;
using ToStore = TilePipeline::ToStore;

constexpr std::int64_t kRow = 2 * kTileColumns;  // sums of a row

// Calls store(sums, where they go) for the next rows of sums, `most` of them at most.
template <typename Store>
MOESH_INLINE void for_rows(ToStore& sums, std::int64_t most, const Store& store) {
  const std::int64_t count = std::min(most, sums.rows);
  const float* from = sums.from;
  std::byte* to = sums.to;
  for (std::int64_t i = 0; i < count; ++i, from += kRow, to += sums.pitch) store(from, to);
  sums.from = from;
  sums.to = to;
  sums.rows -= count;
}

MOESH_INLINE __m512i rounded(const float* from) {
  return (__m512i)_mm512_cvtne2ps_pbh(_mm512_load_ps(from + kTileColumns), _mm512_load_ps(from));
}

MOESH_INLINE void store_rows(ToStore& sums, std::int64_t most) {
  using enum TilePipeline::As;
  if (sums.as == bfloat16) {
    const __mmask32 columns = sums.columns;
    for_rows(sums, most, [&](const float* from, std::byte* to) MOESH_STORE { _mm512_mask_storeu_epi16(to, columns, rounded(from)); });
  } else if (sums.as == streamed_bfloat16) {
    for_rows(sums, most, [](const float* from, std::byte* to) MOESH_STORE {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to), rounded(from));
    });
  } else if (sums.as == float32) {
    const auto left = static_cast<__mmask16>(sums.columns), right = static_cast<__mmask16>(sums.columns >> kTileColumns);
    for_rows(sums, most, [&](const float* from, std::byte* to) MOESH_STORE {
      _mm512_mask_storeu_ps(to, left, _mm512_load_ps(from));
      _mm512_mask_storeu_ps(to + kBeside, right, _mm512_load_ps(from + kTileColumns));
    });
  } else {
    for_rows(sums, most, [](const float* from, std::byte* to) MOESH_STORE {
      _mm512_stream_ps(reinterpret_cast<float*>(to), _mm512_load_ps(from));
      _mm512_stream_ps(reinterpret_cast<float*>(to + kBeside), _mm512_load_ps(from + kTileColumns));
    });
  }
}

template <bool passes, int tile, int offset = 0>
void read(const void* from, std::int64_t row_bytes) {
  if constexpr (passes) read_passing_tile<tile, offset>(from, row_bytes);
  else read_tile<tile, offset>(from, row_bytes);
}

constexpr auto kElement = static_cast<std::int64_t>(sizeof(bfloat16));
constexpr std::int64_t kPanelLine = 2 * kTileColumns * 2, kPanelStep = kTileRows * kPanelLine;

// Writes the sums that are in a tile, and begins those of a block.
template <int tile>
void change_sums(const InTiles& in_tiles, const TileBlock& block) {
  constexpr int kTileRow = tile / 2 * kTileRows, kBesideIt = tile % 2 * kBeside;
  constexpr auto kSum = static_cast<std::int64_t>(sizeof(float));
  if (in_tiles.to != nullptr) write_tile<tile, kBesideIt>(in_tiles.to + kTileRow * in_tiles.pitch, in_tiles.pitch * kSum);
  if (block.add) read_tile<tile, kBesideIt>(block.c + kTileRow * block.c_pitch, block.c_pitch * kSum);
  else zero_tile<tile>();
}

// Fetches the next rows of a block's sums, so that stores find them there.
MOESH_INLINE void fetch_rows(const float*& sums, std::int64_t pitch, std::int64_t rows) {
  if (sums == nullptr) return;
  for (std::int64_t i = 0; i < rows; ++i, sums += pitch) {
    __builtin_prefetch(sums, 1);
    __builtin_prefetch(sums + kTileColumns, 1);
  }
}

// Fetches the lines of step `step`, which are not read soon.
MOESH_INLINE void fetch_ahead(const LinesAhead& ahead, std::int64_t step) {
  const std::byte* line = ahead.first + step * ahead.step;
  for (std::int64_t i = 0; i < ahead.lines; ++i, line += ahead.pitch) _mm_prefetch(line, _MM_HINT_T2);
}

template <int row_tiles, int column_tiles>
void change_all_sums(const InTiles& in_tiles, const TileBlock& block) {
  change_sums<0>(in_tiles, block);
  if constexpr (column_tiles == 2) change_sums<1>(in_tiles, block);
  if constexpr (row_tiles == 2) change_sums<2>(in_tiles, block);
  if constexpr (row_tiles == 2 && column_tiles == 2) change_sums<3>(in_tiles, block);
}

// Tiles 4 and 5 hold a, and 6 and 7 hold b.
template <int row_tiles, int column_tiles, TilePassing passing>
MOESH_TARGET void multiply_tiles(const TileBlock& block, const InTiles& in_tiles, ToStore& earlier) {
  constexpr bool a_passes = passing == TilePassing::a, b_passes = passing == TilePassing::b;
  const std::int64_t a_bytes = block.a_pitch * kElement;
  const bfloat16* a = block.a;
  const bfloat16* a_below = a + block.a_below;
  const bfloat16* b = block.b;
  ToStore sums = earlier;
  const std::int64_t steps = std::max<std::int64_t>(1, block.steps);
  const std::int64_t at_once = divide_up(sums.rows, 2 * steps), fetched_at_once = divide_up(row_tiles * kTileRows, steps);
  const float* next_c = block.next_c;
  const LinesAhead ahead = block.ahead;
  for (std::int64_t step = 0; step < block.steps; ++step) {
    const bool begins = step == 0;
    read<a_passes, 4>(a, a_bytes);
    read<b_passes, 6>(b, kPanelLine * kElement);
    if (begins) change_sums<0>(in_tiles, block);
    add_tile_product<0, 4, 6>();
    if constexpr (column_tiles == 2) {
      read<b_passes, 7, kBeside>(b, kPanelLine * kElement);
      if (begins) change_sums<1>(in_tiles, block);
      add_tile_product<1, 4, 7>();
    }
    store_rows(sums, at_once);
    fetch_ahead(ahead, step);
    fetch_rows(next_c, block.c_pitch, fetched_at_once);
    if constexpr (row_tiles == 2) {
      read<a_passes, 5>(a_below, a_bytes);
      if (begins) change_sums<2>(in_tiles, block);
      add_tile_product<2, 5, 6>();
    }
    store_rows(sums, at_once);
    if constexpr (row_tiles == 2 && column_tiles == 2) {
      if (begins) change_sums<3>(in_tiles, block);
      add_tile_product<3, 5, 7>();
    }
    a += block.a_step;
    a_below += block.a_step;
    b += kPanelStep;
  }
  if (block.steps == 0) change_all_sums<row_tiles, column_tiles>(in_tiles, block);
  store_rows(sums, sums.rows);
  earlier = sums;
}

// Multiplies one tile of rows, in tile 4, with two panels, whose sums are in tiles 0 and 1 and in 2 and 3.
void multiply_two_panels(const TileBlock& block, std::int64_t to_next_panel, std::int64_t to_next_sums) {
  float* const beside = block.c + to_next_sums;
  begin_sums<2, 2>(block.c, beside, block.c_pitch, block.add);
  const bfloat16* a = block.a;
  const bfloat16* b = block.b;
  for (std::int64_t step = 0; step < block.steps; ++step, a += block.a_step, b += kPanelStep) {
    read_tile<4>(a, block.a_pitch * kElement);
    read_tile<5>(b, kPanelLine * kElement);
    add_tile_product<0, 4, 5>();
    read_tile<6, kBeside>(b, kPanelLine * kElement);
    add_tile_product<1, 4, 6>();
    read_tile<7>(b + to_next_panel, kPanelLine * kElement);
    add_tile_product<2, 4, 7>();
    read_tile<5, kBeside>(b + to_next_panel, kPanelLine * kElement);
    add_tile_product<3, 4, 5>();
  }
  write_sums<2, 2>(block.c, beside, block.c_pitch);
}

MOESH_TARGET void store_all(ToStore& sums) { store_rows(sums, sums.rows); }

}  // namespace

void TilePipeline::multiply(const TileBlock& block) {
  using enum TilePassing;
  using Kernel = void (*)(const TileBlock& block, const InTiles& in_tiles, ToStore& earlier);
  static constexpr Kernel kKernels[2][2][3] = {
      {{multiply_tiles<1, 1, a>, multiply_tiles<1, 1, b>, multiply_tiles<1, 1, none>},
       {multiply_tiles<1, 2, a>, multiply_tiles<1, 2, b>, multiply_tiles<1, 2, none>}},
      {{multiply_tiles<2, 1, a>, multiply_tiles<2, 1, b>, multiply_tiles<2, 1, none>},
       {multiply_tiles<2, 2, a>, multiply_tiles<2, 2, b>, multiply_tiles<2, 2, none>}}};
  if (in_tiles_.row_tiles != block.row_tiles || in_tiles_.column_tiles != block.column_tiles) empty_tiles();
  kKernels[block.row_tiles - 1][block.column_tiles - 1][static_cast<std::size_t>(block.passing)](block, in_tiles_, earlier());
  in_tiles_ = {block.row_tiles, block.column_tiles, block.c, block.c_pitch};
  is_second_ = !is_second_;
}

void TilePipeline::store_last(std::int64_t rows, std::int64_t columns, As as, std::byte* to, std::int64_t pitch) {
  ToStore& sums = of_last();
  sums.from = in_tiles_.to;
  sums.rows = rows;
  sums.columns = columns == kRow ? ~0u : (1u << columns) - 1;
  sums.as = as;
  sums.to = to;
  sums.pitch = pitch;
}

void TilePipeline::make_room(const TileBlock& block) {
  const auto wait_there = [&](const ToStore& sums) { return sums.rows > 0 && sums.from == block.c; };
  if (wait_there(of_last())) finish();
  if (block.add && wait_there(earlier())) store_all(earlier());
}

void TilePipeline::empty_tiles() {
  if (in_tiles_.to == nullptr) return;
  float* const below = in_tiles_.to + kTileRows * in_tiles_.pitch;
  const bool has_beside = in_tiles_.column_tiles == 2;
  if (in_tiles_.row_tiles == 2) {
    has_beside ? write_sums<2, 2>(in_tiles_.to, below, in_tiles_.pitch) : write_sums<2, 1>(in_tiles_.to, below, in_tiles_.pitch);
  } else {
    has_beside ? write_sums<1, 2>(in_tiles_.to, below, in_tiles_.pitch) : write_sums<1, 1>(in_tiles_.to, below, in_tiles_.pitch);
  }
  in_tiles_ = {};
}

void TilePipeline::finish() {
  empty_tiles();
  store_all(earlier());
  store_all(of_last());
}

void multiply_panels(const TileBlock& first, std::int64_t panels, std::int64_t to_next_panel, std::int64_t to_next_sums) {
  const auto at = [&](std::int64_t panel) {
    TileBlock block = first;
    block.b += panel * to_next_panel;
    block.c += panel * to_next_sums;
    return block;
  };
  const std::int64_t in_twos = first.row_tiles == 1 ? round_down(panels, 2) : 0;
  for (std::int64_t panel = 0; panel < in_twos; panel += 2) multiply_two_panels(at(panel), to_next_panel, to_next_sums);
  TilePipeline pipeline(nullptr);
  for (std::int64_t panel = in_twos; panel < panels; ++panel) pipeline.multiply(at(panel));
  pipeline.finish();
}

}  // namespace moesh::backend::cpu
#endif
