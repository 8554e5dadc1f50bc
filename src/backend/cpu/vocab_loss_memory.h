// Memory of the loss over a vocabulary while it is computed: what all threads share, and what each thread has for itself.
// Shape suffixes: N tokens, V vocabulary, M embedding.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "backend/cpu/left_rows.h"
#include "backend/cpu/scratch.h"

namespace moesh::backend::cpu {

// Sizes of the tokens that are processed together, and of what is packed at a time.
struct LossShape {
  static constexpr std::int64_t kUnit = 224;          // words per unit of the vocabulary: whole blocks of most micro-kernels
  static constexpr std::int64_t kGradientPanels = 4;  // panels of the width multiplied with exponentials when these come from memory

  std::int64_t tokens, vocabulary, width;
  std::int64_t units;  // units that are packed at a time
  bool has_gradients;
  bool has_sums;  // whether the gradient of the table is rounded, and must be summed over tokens that are processed one after the other

  LossShape(std::int64_t all, std::int64_t of_vocabulary, std::int64_t of_width, std::int64_t element, bool gives_gradients,
            bool rounds_gradient, std::int64_t threads)
      : tokens(at_once(std::max<std::int64_t>(1, all), of_vocabulary, element)),
        vocabulary(of_vocabulary),
        width(of_width),
        units(std::min(std::max(kUnitsOfThread * threads, kPackedElements / (kUnit * of_width)), all_units())),
        has_gradients(gives_gradients),
        has_sums(rounds_gradient && tokens < all) {}
  std::int64_t all_units() const { return divide_up(vocabulary, kUnit); }

 private:
  // Elements of the table that are packed at a time, in each orientation: few, so that a cache has room for the next ones too, but enough
  // units for threads to share the packing.
  static constexpr std::int64_t kPackedElements = 64 * 1024, kUnitsOfThread = 2;
  // Memory for the exponentials of the tokens that are processed together, unless these are so few that packing the table and passing over
  // its gradient would not pay off.
  static constexpr std::int64_t kExponentialBytes = 128 * 1024 * 1024, kFewestTokens = 1024;

  static std::int64_t at_once(std::int64_t tokens, std::int64_t vocabulary, std::int64_t element) {
    constexpr std::int64_t kColumns = MicroKernels<float>::kMostColumns;
    const std::int64_t most = std::max(kFewestTokens, round_down(kExponentialBytes / (element * vocabulary), kColumns));
    return round_up(divide_up(tokens, divide_up(tokens, most)), kColumns);
  }
};

// Memory that all threads share.
template <typename T, typename P>
struct LossMemory {
  static constexpr std::int64_t kUnit = LossShape::kUnit;
  using W = Wide<T>;

  LossMemory(Pieces pieces, Isa isa, const LossShape& shape)
      : kernels(micro_kernels<P>(isa)),
        rows(kernels, shape.width),
        transposed(kernels, kUnit, evened(kernels, kernels.rows, shape.width)),
        columns(kernels.columns),
        panels(divide_up(shape.tokens, columns)),
        exponentials(kernels, panels),
        x_size(columns * round_up(shape.width, kernels.depth_step)),
        dx_size(columns * round_up(shape.width, 2 * kTileRows)),
        depth(round_up(shape.tokens, kernels.depth_step)) {
    table = pieces.take<P>(shape.units * rows.size(kUnit));
    x = pieces.take<P>(panels * x_size);
    base = pieces.take<W>(panels * columns);
    sum = pieces.take<W>(panels * columns);
    target_score = pieces.take<W>(panels * columns);
    target_exponential = pieces.take<W>(panels * columns);
    target_slope = pieces.take<W>(panels * columns);
    if (shape.has_gradients) {
      transposed_table = pieces.take<P>(shape.units * transposed.size(shape.width));
      dx = pieces.take<W>(panels * dx_size);
      scaled_x = pieces.take<T>(shape.tokens * shape.width);
      packed_x = pieces.take<P>(round_up(shape.width, columns) * depth);
      all_exponentials = pieces.take<P>(shape.all_units() * exponentials.size(kUnit));
      table_sums = shape.has_sums ? pieces.take<W>(shape.vocabulary * shape.width) : nullptr;
    }
    bytes = pieces.bytes();
  }

  LeftRows<P> rows_of(std::int64_t unit) const {
    LeftRows<P> of = rows;
    of.set(table + unit * rows.size(kUnit));
    return of;
  }
  LeftRows<P> transposed_of(std::int64_t unit, std::int64_t width) const {
    LeftRows<P> of = transposed;
    of.set(transposed_table + unit * transposed.size(width));
    return of;
  }

  RowsByPanel<P> exponentials_of(std::int64_t unit) const {
    RowsByPanel<P> of = exponentials;
    of.set(all_exponentials + unit * exponentials.size(kUnit));
    return of;
  }

  const MicroKernels<P>& kernels;
  LeftRows<P> rows;    // words of a unit [V][M]
  LeftRows<P> transposed;  // a unit transposed [M][V]
  std::int64_t columns, panels;
  RowsByPanel<P> exponentials;  // of a unit [V][N]
  std::int64_t x_size, dx_size, depth;
  P* table;
  P* x;     // panels [M][N]
  W* base;  // per token: what is subtracted from its scores before exponentials are taken
  W* sum;   // per token: the sum of its exponentials
  W* target_score;
  W* target_exponential;
  W* target_slope;  // of a soft cap, at the target's score; 1 without one
  // Only for gradients.
  P* transposed_table = nullptr;
  W* dx = nullptr;        // panels [M][N], before they are multiplied by the tokens' shares
  T* scaled_x = nullptr;  // [N][M], x multiplied by each token's share
  P* packed_x = nullptr;  // scaled_x as packed panels [N][M]
  P* all_exponentials = nullptr;
  W* table_sums = nullptr;  // the gradient of the table before it is rounded
  std::int64_t bytes;
};

// Memory that each thread has for itself.
template <typename T, typename P>
struct OwnLossMemory {
  static constexpr std::int64_t kUnit = LossShape::kUnit, kGradientPanels = LossShape::kGradientPanels;
  using W = Wide<T>;
  OwnLossMemory(Pieces pieces, Isa isa, std::int64_t of_words, bool has_slopes) {
    const std::int64_t columns = micro_kernels<P>(isa).columns;
    rounded = pieces.take<T>(of_words);
    size_of_panel = columns * (kUnit + kTileRows);
    scores = pieces.take<W>(size_of_panel);
    gradients = pieces.take<W>(kGradientPanels * size_of_panel);
    transposed = pieces.take<W>(columns * kUnit);
    slopes = has_slopes ? pieces.take<W>(columns * kUnit) : nullptr;
    if constexpr (std::is_same_v<P, W>) {
      exponentials = scores;
    } else {
      exponentials = pieces.take<P>(columns * (kUnit + kTileDepth));
      packed = pieces.take<P>(columns * (kUnit + kTileDepth));
    }
    bytes = pieces.bytes();
  }

  std::int64_t size_of_panel;
  W* scores;            // [V][N] of a unit and a panel of tokens
  W* gradients;         // [V][M] of a unit, one panel after another
  W* transposed;        // a panel of gradients, transposed to [M][V]
  W* slopes;            // of a soft cap, at the scores, unless it is null
  P* exponentials;      // exponentials of the scores, [V][N]
  P* packed = nullptr;  // the exponentials as a packed panel
  T* rounded;           // words of a unit, rounded from a table of the wide type
  std::int64_t bytes;
};

}  // namespace moesh::backend::cpu
