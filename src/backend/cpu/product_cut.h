// How a product's result is cut into tasks: a function of its sizes alone.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cpu/pack.h"

namespace moesh::backend::cpu {

// How many rows and columns tasks have.
struct Cut {
  std::int64_t rows;
  std::int64_t columns;
};

struct ProductSize {
  std::int64_t rows, columns, depth;
  std::int64_t row_step, column_step;  // of a block
  std::int64_t most_rows;              // whose packed form fits a thread's memory
  std::int64_t most_sums;              // that fit it, where they wait there; else any number
  std::int64_t b_is_cheaper;           // so many times as cheap as a to pack

  double work(const Cut& of) const {
    return static_cast<double>(std::min(of.rows, rows)) * static_cast<double>(std::min(of.columns, columns)) *
           static_cast<double>(std::max<std::int64_t>(1, depth));
  }
};

// Into parts that fit and have this work at most, unless they were too small to be worth it. Half as many rows pack b twice as often, half
// as many columns a: what costs less is halved.
inline Cut cut_of(const ProductSize& of, double most_work) {
  const auto even = [](std::int64_t all, std::int64_t parts, std::int64_t step) { return round_up(divide_up(all, parts), step); };
  std::int64_t bands = divide_up(of.rows, of.most_rows);
  Cut cut{even(of.rows, bands, of.row_step), of.columns};
  std::int64_t parts = divide_up(of.columns, std::max(of.column_step, round_down(of.most_sums / cut.rows, of.column_step)));
  if (parts > 1) cut.columns = even(of.columns, parts, of.column_step);
  while (of.work(cut) > most_work) {
    const bool has_rows = cut.rows >= 2 * of.row_step, has_columns = cut.columns >= 2 * of.column_step;
    if (!has_rows && !has_columns) break;
    const bool takes_rows = has_rows && (!has_columns || cut.rows * of.b_is_cheaper >= cut.columns);
    if (takes_rows) cut.rows = even(of.rows, bands *= 2, of.row_step);
    else cut.columns = even(of.columns, parts *= 2, of.column_step);
  }
  return cut;
}

}  // namespace moesh::backend::cpu
