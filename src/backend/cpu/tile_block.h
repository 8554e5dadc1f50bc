// The blocks of a GEMM on AMX: 32 rows of a stay in the L1 cache, and panels of b stream past them. The sums of a block stay in tiles until
// the next block begins, and are rounded and stored while the one after that is multiplied: tiles and vectors work side by side, and a tile
// that is stored right after its last product makes all later work wait.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bfloat16.h"

namespace moesh::backend::cpu {

// What the L1 cache need not keep: rows of a that stream past a panel of b, panels that stream past rows, or nothing, as it holds all.
enum class TilePassing : std::uint8_t { a, b, none };

// What later blocks read, fetched into the L2 cache meanwhile: so many cache lines a step, `pitch` bytes apart, and those of the next step
// `step` bytes further on.
struct LinesAhead {
  const std::byte* first = nullptr;
  std::int64_t lines = 0;
  std::int64_t pitch = 0;
  std::int64_t step = 0;
};

// What is multiplied: one or two tiles of rows with one or two of columns, which a packed panel of b holds, in steps of a tile's depth.
struct TileBlock {
  std::int64_t row_tiles = 2, column_tiles = 2;
  TilePassing passing = TilePassing::none;
  std::int64_t steps = 0;
  const bfloat16* a = nullptr;
  std::int64_t a_pitch = 0;     // from one row to the next
  std::int64_t a_below = 0;     // from a tile of rows to the next one
  std::int64_t a_step = 0;      // from one step to the next
  const bfloat16* b = nullptr;  // [step][pair of the depth][32 columns][2]
  float* c = nullptr;
  std::int64_t c_pitch = 0;
  bool add = false;               // whether the sums begin with what c holds
  const float* next_c = nullptr;  // fetched into the L1 cache meanwhile: where the sums of the next block come, at the same pitch
  LinesAhead ahead = {};
};

// Multiplies blocks one after the other: while one is multiplied, the sums of the block before leave the tiles, and those of the block
// before that are stored as a result.
class TilePipeline {
 public:
  enum class As : std::uint8_t { float32, bfloat16, streamed_float32, streamed_bfloat16 };

  // `room`: for the sums of two blocks.
  explicit TilePipeline(float* room) : room_(room) {}

  // A place for the sums of the next block, unless they have one.
  float* place() { return room_ + (is_second_ ? kSums : 0); }

  // The sums are at block.c once the next block has been multiplied.
  void multiply(const TileBlock& block);

  // Has the sums of the last block, rows of 32 one after the other, stored at `to`, whose rows are `pitch` bytes apart. Streamed: with
  // non-temporal stores, all 32 columns, where a cache line begins.
  void store_last(std::int64_t rows, std::int64_t columns, As as, std::byte* to, std::int64_t pitch);

  // To be called if sums may wait for being stored where those of a block will come.
  void make_room(const TileBlock& block);

  // The sums of the last block come to their place.
  void empty_tiles();
  // After this nothing waits any more.
  void finish();

  struct InTiles {
    std::int64_t row_tiles = 0, column_tiles = 0;
    float* to = nullptr;  // null if there are no sums in tiles
    std::int64_t pitch = 0;
  };
  struct ToStore {
    const float* from = nullptr;
    std::int64_t rows = 0;      // none: nothing waits
    std::uint32_t columns = 0;  // a bit for each
    As as = As::float32;
    std::byte* to = nullptr;
    std::int64_t pitch = 0;
  };

 private:
  static constexpr std::int64_t kSums = 32 * 32;

  ToStore& of_last() { return to_store_[is_second_ ? 0 : 1]; }
  ToStore& earlier() { return to_store_[is_second_ ? 1 : 0]; }

  float* room_;
  InTiles in_tiles_;
  // Written and read field by field: a processor waits for its stores if it reads in one piece what it has just written in several.
  ToStore to_store_[2];
  bool is_second_ = false;  // blocks take turns
};

// Multiplies a block with several panels that the L1 cache holds. Each panel, and its sums, are so many elements after the one before. If
// there is one tile of rows, tiles 0 to 4 may have fewer rows than 16.
void multiply_panels(const TileBlock& first, std::int64_t panels, std::int64_t to_next_panel, std::int64_t to_next_sums);

}  // namespace moesh::backend::cpu
