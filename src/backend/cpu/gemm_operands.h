// The operands of a batch of products, and what every GEMM driver asks of them.
#pragma once

#include <cstdint>
#include <optional>

#include "backend/cpu/gemm.h"
#include "backend/cpu/pack.h"
#include "backend/cpu/simd.h"
#include "base/place.h"

namespace moesh::backend::cpu {

// A part of the result of product `i` of the batch.
struct ProductPart {
  std::int64_t i;
  Range rows;
  Range columns;
};

template <typename A, typename B, typename C>
struct ProductOperands {
  using W = Wide<A>;

  ProductOperands(const Matrices<const A>& of_a, const Matrices<const B>& of_b, const Matrices<C>& of_c, const MultiplyOptions& of_options)
      : a(of_a),
        b(of_b),
        c(of_c),
        options(of_options),
        columns(static_cast<std::int64_t>(c.columns.size())),
        batch(static_cast<std::int64_t>(c.batch.size())),
        a_pitch(pitch_of(a.rows)),
        b_pitch(pitch_of(b.rows)),
        c_pitch(is_contiguous(c.columns) ? pitch_of(c.rows) : std::nullopt),
        a_rows_contiguous(a_pitch == 1),
        a_depth_contiguous(is_contiguous(a.columns)),
        b_columns_contiguous(is_contiguous(b.columns)),
        b_depth_contiguous(b_pitch == 1) {}

  Range rows_of(std::int64_t i) const {
    if (options.row_begins.empty()) return {0, static_cast<std::int64_t>(c.rows.size())};
    return {options.row_begins[at(i)], options.row_begins[at(i + 1)]};
  }
  Range depth_of(std::int64_t i) const {
    if (options.depth_begins.empty()) return {0, static_cast<std::int64_t>(a.columns.size())};
    return {options.depth_begins[at(i)], options.depth_begins[at(i + 1)]};
  }

  Lines<A> lines_of_a(std::int64_t i) const { return {a.data + a.batch[at(i)], a.rows, a.columns, a_rows_contiguous, a_depth_contiguous}; }
  Lines<B> lines_of_b(std::int64_t i) const {
    return {b.data + b.batch[at(i)], b.columns, b.rows, b_columns_contiguous, b_depth_contiguous};
  }

  const A* element_of_a(std::int64_t i, std::int64_t row, std::int64_t depth) const {
    return a.data + a.batch[at(i)] + a.rows[at(row)] + a.columns[at(depth)];
  }
  const B* element_of_b(std::int64_t i, std::int64_t depth, std::int64_t column) const {
    return b.data + b.batch[at(i)] + b.rows[at(depth)] + b.columns[at(column)];
  }
  // The first element of b that a part reads; null if it reads none.
  const B* begin_of_b(const ProductPart& part) const {
    const Range depth = depth_of(part.i);
    return depth.size() == 0 ? nullptr : element_of_b(part.i, depth.begin, part.columns.begin);
  }
  C* first_of(const ProductPart& part) const {
    return c.data + c.batch[at(part.i)] + c.rows[at(part.rows.begin)] + c.columns[at(part.columns.begin)];
  }

  // Whether kernels write into the result itself: it has the type of the sums, and its rows are contiguous, at one pitch.
  bool is_in_place() const { return std::is_same_v<C, W> && c_pitch.has_value(); }

  // Reads the part of c to which the product is added.
  void load_result(const ProductPart& part, W* to, std::int64_t pitch) const {
    for (std::int64_t row = part.rows.begin; row < part.rows.end; ++row, to += pitch) {
      const C* from = c.data + c.batch[at(part.i)] + c.rows[at(row)];
      for (std::int64_t j = 0; j < part.columns.size(); ++j) to[j] = static_cast<W>(load(from[c.columns[at(part.columns.begin + j)]]));
    }
  }

  void write_back(Isa isa, const ProductPart& part, const W* from, std::int64_t pitch) const {
    const std::int64_t rows = part.rows.size(), count = part.columns.size();
    if (!c_pitch) {
      for (std::int64_t row = part.rows.begin; row < part.rows.end; ++row, from += pitch) {
        C* const to = c.data + c.batch[at(part.i)] + c.rows[at(row)];
        for (std::int64_t j = 0; j < count; ++j) to[c.columns[at(part.columns.begin + j)]] = store<C>(from[j]);
      }
      return;
    }
    C* const to = first_of(part);
#if defined(__x86_64__)
    if constexpr (std::is_same_v<A, bfloat16> && std::is_same_v<B, bfloat16> && std::is_same_v<C, bfloat16>) {
      if (packs_bfloat16(isa)) return store_avx512_bf16(from, pitch, rows, count, to, *c_pitch);
    }
#endif
    vectorised(isa, [&]() MOESH_LOOP {
      for (std::int64_t i = 0; i < rows; ++i) {
        const W* __restrict line = from + i * pitch;
        C* __restrict out = to + i * *c_pitch;
        for (std::int64_t j = 0; j < count; ++j) out[j] = store<C>(line[j]);
      }
    });
  }

  Matrices<const A> a;
  Matrices<const B> b;
  Matrices<C> c;
  MultiplyOptions options;
  std::int64_t columns;
  std::int64_t batch;
  std::optional<std::int64_t> a_pitch;  // from one row to the next
  std::optional<std::int64_t> b_pitch;  // from one line of the depth to the next
  std::optional<std::int64_t> c_pitch;  // from one row to the next, if each row is contiguous
  bool a_rows_contiguous, a_depth_contiguous, b_columns_contiguous, b_depth_contiguous;
};

}  // namespace moesh::backend::cpu
