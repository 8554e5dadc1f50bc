// Small products that share their operands: rows packed once, and multiplied with one panel of columns after the other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/micro_kernel.h"
#include "backend/cpu/pack.h"

namespace moesh::backend::cpu {

// Kernels whose blocks share so many rows evenly.
template <typename P>
MicroKernels<P> evened(MicroKernels<P> kernels, std::int64_t rows) {
  const std::int64_t strips = std::max<std::int64_t>(1, divide_up(rows, kernels.rows));
  kernels.rows = std::max(kernels.row_step, round_up(divide_up(rows, strips), kernels.row_step));
  return kernels;
}

// Rows of the left operand, where they lie packed in strips of a block's rows each.
template <typename P>
class PackedRows {
 public:
  // `depth`: at most.
  PackedRows(const MicroKernels<P>& kernels, std::int64_t depth) : kernels_(kernels), room_(round_up(depth, kernels.depth_step)) {}

  // Tiles are packed two at a time.
  std::int64_t size(std::int64_t rows) const {
    return kernels_.row_room > 0 ? divide_up(rows, kernels_.rows) * strip() : round_up(rows, 2 * kTileRows) * room_;
  }
  void set(P* data) { data_ = data; }

  // From this step of the depth on, where a step of the kernels begins. What is read late had better not fill the caches; then
  // settle_late_writes() is to follow.
  template <typename T>
  void pack(Isa isa, const Lines<T>& of, std::int64_t begin = 0, bool is_read_late = false) const {
    const Range lines{0, static_cast<std::int64_t>(of.lines.size())}, depth{0, static_cast<std::int64_t>(of.depth.size())};
    Packer<P, T>(isa, kernels_, room_).rows(of, lines, depth, data_ + begin * lines_together(), is_read_late);
  }

  P& at(std::int64_t row, std::int64_t depth) const {
    constexpr std::int64_t kTogether = MicroKernels<P>::kTogether;
    if (kernels_.row_room > 0) {
      return data_[row / kernels_.rows * strip() + depth / kTogether * kTogether * kernels_.row_room + row % kernels_.rows * kTogether +
                   depth % kTogether];
    }
    return data_[row / kTileRows * kTileRows * room_ + depth / kTileDepth * kTileDepth * kTileRows + row % kTileRows * kTileDepth +
                 depth % kTileDepth];
  }

  // c = or += the rows times the panel `b`, whose first step is the depth's begin. Rows and depth begin where a block and a step do.
  // The last block may be of more rows than there are, up to a row step.
  void multiply(Range rows, Range depth, const P* b, bool is_narrow, bool add, Wide<P>* c, std::int64_t c_pitch) const {
    constexpr std::int64_t kTogether = MicroKernels<P>::kTogether;
    BlockToMake<P> blocks[kBlocksTogether];
    std::int64_t count = 0;
    for (std::int64_t row = rows.begin; row < rows.end; row += kernels_.rows, c += kernels_.rows * c_pitch) {
      BlockToMake<P>& one = blocks[count++];
      one = {.block = {.steps = divide_up(depth.size(), kernels_.depth_step),
                       .a = data_ + row / kernels_.rows * strip() + depth.begin * lines_together(),
                       .a_room = room_,
                       .b = b,
                       .b_pitch = kernels_.columns * kTogether,
                       .c = c,
                       .c_pitch = c_pitch,
                       .add = add},
             .kernel = kernels_.find(is_narrow, std::min(kernels_.rows, rows.end - row)),
             .a_step = kTileRows * kTileDepth};
      if (kernels_.row_room > 0) {
        one.kernel(one.block);
        count = 0;
      } else if (count == kBlocksTogether || row + kernels_.rows >= rows.end) {
        if constexpr (std::is_same_v<P, bfloat16>) make_in_pieces(blocks, count);
        count = 0;
      }
    }
  }

 private:
  // That lie side by side at a step.
  std::int64_t lines_together() const { return kernels_.row_room > 0 ? kernels_.row_room : kTileRows; }
  std::int64_t strip() const { return kernels_.block_lines() * room_; }

  MicroKernels<P> kernels_;
  std::int64_t room_;  // for the depth
  P* data_ = nullptr;
};

}  // namespace moesh::backend::cpu
