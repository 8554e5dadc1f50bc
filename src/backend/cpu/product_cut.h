// How the result of a product is partitioned into tasks: from its sizes, the costs of other work, and the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "backend/cpu/pack.h"

namespace moesh::backend::cpu {

// A partition into bands of rows and parts of columns, among which the blocks are divided evenly.
struct Cut {
  std::int64_t bands;
  std::int64_t parts;
};

// The i-th of `pieces` pieces of [0, all), which consists of blocks of `step` and a shorter last one.
inline Range piece_of(std::int64_t all, std::int64_t step, std::int64_t pieces, std::int64_t i) {
  const std::int64_t blocks = divide_up(all, step);
  return {i * blocks / pieces * step, std::min(all, (i + 1) * blocks / pieces * step)};
}

// Size of the largest piece, in whole blocks.
inline std::int64_t piece_at_most(std::int64_t all, std::int64_t step, std::int64_t pieces) {
  return divide_up(divide_up(all, step), pieces) * step;
}

struct ProductSize {
  std::int64_t rows, columns, depth;
  std::int64_t block_rows, block_columns;
  std::int64_t most_rows = std::numeric_limits<std::int64_t>::max();  // packed rows that fit a thread's memory
  std::int64_t most_sums = std::numeric_limits<std::int64_t>::max();  // sums that fit it, if they wait there
  // Costs in units of one multiplication: packing an element of a row or of a column, starting a task, having other threads join.
  double pack_row = 24;
  double pack_column = 24;
  double begin = 40000;
  double share = 100000;

  double work() const { return static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(steps()); }

  // Estimated time of a task of this size, in multiplications.
  double time_of(double task_rows, double task_columns) const {
    return begin + static_cast<double>(steps()) * (task_rows * task_columns + pack_row * task_rows + pack_column * task_columns);
  }

  std::int64_t steps() const { return std::max<std::int64_t>(1, depth); }
  std::int64_t row_blocks() const { return divide_up(rows, block_rows); }
  std::int64_t column_blocks() const { return divide_up(columns, block_columns); }
  std::int64_t bands_that_fit() const { return divide_up(row_blocks(), std::max<std::int64_t>(1, most_rows / block_rows)); }
  // The smallest number of parts for which the sums of `task_rows` rows fit.
  std::int64_t parts_that_fit(std::int64_t task_rows) const {
    return divide_up(column_blocks(), std::max<std::int64_t>(1, most_sums / task_rows / block_columns));
  }
  std::int64_t bands_that_fit(std::int64_t parts) const {
    const std::int64_t by_sums = most_sums / piece_at_most(columns, block_columns, parts);
    return std::max(bands_that_fit(), divide_up(row_blocks(), std::max<std::int64_t>(1, by_sums / block_rows)));
  }
};

// The cut of one of several products: into tasks that fit and have at most `most_work`, or are single blocks. Twice as many bands pack b
// twice as often, and twice as many parts pack a twice as often: the cheaper of the two is done.
inline Cut cut_of(const ProductSize& of, double most_work) {
  Cut cut{of.bands_that_fit(), 0};
  cut.parts = of.parts_that_fit(piece_at_most(of.rows, of.block_rows, cut.bands));
  cut.bands = of.bands_that_fit(cut.parts);  // of all rows, the sums of even one block of columns may not fit
  while (true) {
    const std::int64_t rows = piece_at_most(of.rows, of.block_rows, cut.bands);
    const std::int64_t columns = piece_at_most(of.columns, of.block_columns, cut.parts);
    const auto of_task = [&](std::int64_t piece, std::int64_t all) { return static_cast<double>(std::min(piece, all)); };
    if (of_task(rows, of.rows) * of_task(columns, of.columns) * static_cast<double>(of.steps()) <= most_work) return cut;
    const bool has_rows = rows >= 2 * of.block_rows, has_columns = columns >= 2 * of.block_columns;
    if (!has_rows && !has_columns) return cut;
    const double of_rows = of.pack_row * static_cast<double>(rows), of_columns = of.pack_column * static_cast<double>(columns);
    const bool takes_rows = has_rows && (!has_columns || of_rows >= of_columns);
    if (takes_rows) cut.bands = std::min(2 * cut.bands, of.row_blocks());
    else cut.parts = std::min(2 * cut.parts, of.column_blocks());
  }
}

// The cut of a product by itself: of the cuts that give every thread the same number of tasks, and of the coarsest ones that fit, the cut
// with the shortest estimated time.
inline Cut cut_for_threads(const ProductSize& of, std::int64_t threads) {
  if (threads == 1 && of.bands_that_fit(1) == 1 && of.parts_that_fit(piece_at_most(of.rows, of.block_rows, 1)) == 1) return {1, 1};
  constexpr std::int64_t kMostTurns = 4;
  constexpr double kDisturbance = 0.02;  // as a fraction of a task's time: smaller tasks lose less if a thread is held up
  Cut best{};
  double least = std::numeric_limits<double>::infinity();
  const auto consider = [&](Cut cut) {
    const auto bands = static_cast<double>(cut.bands), parts = static_cast<double>(cut.parts);
    const double usual = of.time_of(static_cast<double>(of.rows) / bands, static_cast<double>(of.columns) / parts);
    const double longest = of.time_of(static_cast<double>(std::min(of.rows, piece_at_most(of.rows, of.block_rows, cut.bands))),
                                      static_cast<double>(std::min(of.columns, piece_at_most(of.columns, of.block_columns, cut.parts))));
    const auto turns = static_cast<double>(divide_up(cut.bands * cut.parts, threads));
    const double time = (turns - 1 + kDisturbance) * usual + longest + (cut.bands * cut.parts > 1 ? of.share : 0);
    if (time < least) {
      least = time;
      best = cut;
    }
  };
  for (std::int64_t parts = of.parts_that_fit(of.block_rows);; parts = std::min(2 * parts, of.column_blocks())) {
    const std::int64_t fewest = of.bands_that_fit(parts);
    consider({fewest, parts});
    for (std::int64_t turns = 1; turns <= kMostTurns; ++turns) {
      consider({std::clamp(divide_up(turns * threads, parts), fewest, of.row_blocks()), parts});
    }
    if (parts >= std::min(of.column_blocks(), kMostTurns * threads)) return best;
  }
}

}  // namespace moesh::backend::cpu
