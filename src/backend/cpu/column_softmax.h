// The softmax of scores [row][column] that goes down the columns: each is a lane of the registers, so that no sum goes across one, and
// exponentials lie as the next product takes them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "backend/cpu/gemm.h"
#include "backend/cpu/pack.h"
#include "backend/cpu/left_rows.h"
#include "backend/cpu/simd.h"

namespace moesh::backend::cpu {

// Calls body.template operator()<columns>().
template <typename Body>
void with_columns(std::int64_t columns, const Body& body) {
  if (columns == 32) return body.template operator()<32>();
  if (columns == 16) return body.template operator()<16>();
  body.template operator()<8>();
}

// What a column's exponentials are taken above: its largest score, or 0 where it sees nothing.
template <typename W>
[[gnu::always_inline]] inline W base_of(W largest) {
  return largest == -std::numeric_limits<W>::infinity() ? W(0) : largest;
}

// to = the exponentials of what scores are above `base`, which are added to the sums before they are rounded. `to` may be the scores.
// They also go to `kept`, if there is such a place: past the caches, where instructions for that are at hand, so that
// settle_late_writes() is to follow. It begins with a cache line.
template <int kColumns, typename W, typename E>
void exponentiate(Isa isa, std::int64_t rows, const W* base, const W* scores, E* to, W* sums, const RowsInBlocks<E>& kept = {});

// Columns from `count` on become 0: what products left there may be no number.
template <typename E>
void clear_columns(std::int64_t rows, std::int64_t columns, std::int64_t count, E* to) {
  if (count == columns) return;
  for (std::int64_t row = 0; row < rows; ++row) std::fill(to + row * columns + count, to + (row + 1) * columns, E());
}

// Numbers in the type that products take them in: where they are, or rounded at `to`.
template <typename E, typename W>
const E* in_type(Isa isa, const W* from, std::int64_t count, E* to) {
  if constexpr (std::is_same_v<E, W>) {
    return from;
  } else {
    vectorised(isa, [&]() MOESH_LOOP {
      for (std::int64_t i = 0; i < count; ++i) to[i] = store<E>(from[i]);
    });
    return to;
  }
}

// [row][column] as a panel: where it is, or packed at `to`.
template <typename E>
const E* as_panel(Isa isa, const MicroKernels<E>& kernels, const E* from, std::int64_t depth, E* to) {
  if constexpr (MicroKernels<E>::kTogether == 1) {
    return from;
  } else {
    const OffsetList neighbours = steps(kernels.columns, 1), rows = steps(depth, kernels.columns);
    Packer<E, E>(isa, kernels, depth).columns({from, neighbours, rows, true, false}, {0, kernels.columns}, {0, depth}, to);
    return to;
  }
}

}  // namespace moesh::backend::cpu
