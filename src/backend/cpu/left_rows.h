// The left operand of small products that share it: the same rows are multiplied with one panel of columns after another.
#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>

#include "backend/cpu/caches.h"
#include "backend/cpu/micro_kernel.h"
#include "backend/cpu/offsets.h"
#include "backend/cpu/pack.h"

namespace moesh::backend::cpu {

// Rows of a block if `rows` are divided evenly among blocks of at most `most` rows.
template <typename P>
std::int64_t evened(const MicroKernels<P>& kernels, std::int64_t most, std::int64_t rows) {
  const std::int64_t blocks = std::max<std::int64_t>(1, divide_up(rows, most));
  return std::max(kernels.row_step, round_up(divide_up(rows, blocks), kernels.row_step));
}

// Rows of the left operand: packed once, in one strip per block of rows, or read in place.
template <typename P>
class LeftRows {
 public:
  // `depth` is the largest depth that is packed.
  LeftRows(const MicroKernels<P>& kernels, std::int64_t depth) : LeftRows(kernels, depth, kernels.rows) {}
  LeftRows(const MicroKernels<P>& kernels, std::int64_t depth, std::int64_t rows_of_block)
      : kernels_(kernels), rows_of_block_(rows_of_block), room_(round_up(depth, kernels.depth_step)) {}

  // Elements of the packed rows. Tiles are packed two at a time.
  std::int64_t size(std::int64_t rows) const {
    return kernels_.row_room > 0 ? divide_up(rows, rows_of_block_) * strip() : round_up(rows, 2 * kTileRows) * room_;
  }
  void set(P* room) { packed_ = room; }

  template <typename T>
  void pack(Isa isa, const Lines<T>& of) const {
    const Range lines{0, static_cast<std::int64_t>(of.lines.size())}, depth{0, static_cast<std::int64_t>(of.depth.size())};
    Packer<P, T>(isa, kernels_, room_).rows(of, lines, depth, rows_of_block_, packed_);
  }

  // Whether contiguous rows of T at one pitch are read in place, without packing: if the kernels can do so and a cache holds the rows.
  template <typename T>
  bool may_be_in_place(std::int64_t rows, std::int64_t depth, std::int64_t pitch) const {
    constexpr auto kBytes = static_cast<std::int64_t>(sizeof(T));
    const bool can = std::is_same_v<P, T> && kernels_.row_room > 0 && kernels_.runs.rows > 0 && depth % kernels_.depth_step == 0;
    return can && rows <= rows_in_l2(depth * kBytes, pitch * kBytes);
  }
  bool are_in_place() const { return in_place_ != nullptr; }
  template <typename T>
  void set_in_place(const T* first, std::int64_t pitch) {
    if constexpr (std::is_same_v<P, T>) {
      in_place_ = first;
      pitch_ = pitch;
    }
  }
  template <typename T>
  void take_or_pack(Isa isa, const Lines<T>& of) {
    const auto rows = static_cast<std::int64_t>(of.lines.size()), depth = static_cast<std::int64_t>(of.depth.size());
    const std::optional<std::int64_t> pitch = pitch_of(of.lines);
    if (of.depth_contiguous && pitch && may_be_in_place<T>(rows, depth, *pitch)) return set_in_place(of.data, *pitch);
    pack(isa, of);
  }

  // c = or += the rows times the panel `b`, whose first step is at the begin of `depth`. `rows` begins at a block and `depth` at a step.
  // The last block may cover more rows than there are, up to a whole row step.
  void multiply(Range rows, Range depth, const P* b, bool is_narrow, bool add, Wide<P>* c, std::int64_t c_pitch) const {
    Block<P> block{.steps = divide_up(depth.size(), kernels_.depth_step),
                   .b = b,
                   .b_pitch = kernels_.columns * MicroKernels<P>::kTogether,
                   .c = c,
                   .c_pitch = c_pitch,
                   .add = add};
    if (are_in_place()) multiply_in_place(rows, depth, is_narrow, block);
    else multiply_packed(rows, depth, is_narrow, block);
  }

 private:
  void multiply_in_place(Range rows, Range depth, bool is_narrow, Block<P>& block) const {
    const KernelsOfRuns<P>& kernels = is_narrow ? kernels_.narrow_runs : kernels_.runs;
    block.a = in_place_ + rows.begin * pitch_ + depth.begin;
    block.a_room = pitch_;
    for (std::int64_t row = rows.begin; row < rows.end; row += kernels.rows) {
      kernels.find(std::min(kernels.rows, rows.end - row))(block);
      block.a += kernels.rows * pitch_;
      block.c += kernels.rows * block.c_pitch;
    }
  }

  void multiply_packed(Range rows, Range depth, bool is_narrow, Block<P>& block) const {
    block.a = packed_ + rows.begin / rows_of_block_ * strip() + depth.begin * lines_together();
    block.a_room = room_;
    BlockToMake<P> waiting[kBlocksTogether];
    std::int64_t count = 0;
    for (std::int64_t row = rows.begin; row < rows.end; row += rows_of_block_) {
      const MicroKernel<P> kernel = kernels_.find(is_narrow, std::min(rows_of_block_, rows.end - row));
      if (kernels_.row_room > 0) kernel(block);
      else waiting[count++] = {block, kernel, kTileRows * kTileDepth};
      if constexpr (std::is_same_v<P, bfloat16>) {
        if (count == kBlocksTogether || (count > 0 && row + rows_of_block_ >= rows.end)) {
          make_in_pieces(waiting, count);
          count = 0;
        }
      }
      block.a += strip();
      block.c += rows_of_block_ * block.c_pitch;
    }
  }

  // Lines that are next to each other within a step.
  std::int64_t lines_together() const { return kernels_.row_room > 0 ? kernels_.row_room : kTileRows; }
  std::int64_t strip() const { return kernels_.block_lines(rows_of_block_) * room_; }

  const MicroKernels<P>& kernels_;
  std::int64_t rows_of_block_;
  std::int64_t room_;  // for the depth of packed rows
  P* packed_ = nullptr;
  const P* in_place_ = nullptr;
  std::int64_t pitch_ = 0;
};

// Blocks of `rows` rows each, `step` elements apart.
template <typename E>
struct RowsInBlocks {
  E* first = nullptr;
  std::int64_t rows = 0;
  std::int64_t step = 0;

  E* block(std::int64_t row) const { return first + row / rows * step; }
};

// Rows of the left operand in the layout in which an earlier product computes its panels, [row][column]; its columns become the depth. A
// block of rows of one panel is followed by the same block of rows of the next panel.
template <typename P>
class RowsByPanel {
 public:
  // `panels` is the largest number of panels.
  RowsByPanel(const MicroKernels<P>& kernels, std::int64_t panels) : kernels_(kernels), panels_(panels) {}

  std::int64_t size(std::int64_t rows) const { return divide_up(rows, kernels_.rows) * panels_ * block(); }
  void set(P* data) { data_ = data; }

  P& at(std::int64_t row, std::int64_t column) const {
    return *(block_at(row, column / kernels_.columns) + row % kernels_.rows * kernels_.columns + column % kernels_.columns);
  }

  // Where the rows of a panel are stored.
  RowsInBlocks<P> rows_of(std::int64_t panel) const { return {block_at(0, panel), kernels_.rows, panels_ * block()}; }

  // Consecutive panels of the right operand and of the results, b_size and c_size elements apart.
  struct Panels {
    std::int64_t count;
    const P* b;
    std::int64_t b_size;
    Wide<P>* c;
    std::int64_t c_size;
  };
  // c = the rows, up to `depth`, times b, panel by panel. Blocks of c are written whole, for which it must have room. Each row comes from
  // memory once: the rows that follow are prefetched while these are multiplied.
  void multiply(std::int64_t rows, std::int64_t depth, const Panels& panels) const {
    const std::int64_t together = kernels_.row_room > 0 ? 1 : kBlocksTogether;
    const std::int64_t steps = divide_up(depth, kernels_.depth_step), strip = panels_ * block();
    for (std::int64_t row = 0; row < rows; row += together * kernels_.rows) {
      for (std::int64_t i = 0; i < panels.count; ++i) {
        BlockToMake<P> blocks[kBlocksTogether];
        std::int64_t count = 0;
        for (; count < together && row + count * kernels_.rows < rows; ++count) {
          const std::int64_t here = row + count * kernels_.rows;
          const P* const a = block_at(here, 0);
          blocks[count] = {.block = {.steps = steps,
                                     .a = a,
                                     .b = panels.b + i * panels.b_size,
                                     .b_pitch = kernels_.columns * MicroKernels<P>::kTogether,
                                     .c = panels.c + i * panels.c_size + here * kernels_.columns,
                                     .c_pitch = kernels_.columns,
                                     .ahead = a + strip + i * strip / panels.count,
                                     .ahead_bytes = strip * static_cast<std::int64_t>(sizeof(P)) / (panels.count * steps)},
                           .kernel = kernels_.of_panels,
                           .a_step = block()};
        }
        if constexpr (std::is_same_v<P, bfloat16>) {
          if (kernels_.row_room == 0) {
            make_in_pieces(blocks, count);
            continue;
          }
        }
        blocks[0].kernel(blocks[0].block);
      }
    }
  }

 private:
  std::int64_t block() const { return kernels_.rows * kernels_.columns; }
  P* block_at(std::int64_t row, std::int64_t panel) const { return data_ + (row / kernels_.rows * panels_ + panel) * block(); }

  const MicroKernels<P>& kernels_;
  std::int64_t panels_;
  P* data_ = nullptr;
};

}  // namespace moesh::backend::cpu
