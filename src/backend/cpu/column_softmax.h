// Softmax down the columns of scores [row][column]. Each column is a lane of the vector registers, so that no sum goes across lanes, and
// the exponentials lie as the next GEMM reads them.
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

// What is subtracted from the scores of a column before exponentials are taken: the largest one, or 0 if all are -inf.
template <typename W>
[[gnu::always_inline]] inline W base_of(W largest) {
  return largest == -std::numeric_limits<W>::infinity() ? W(0) : largest;
}

// to = exp(scores - base), with a base per column. The exponentials are added to the sums of the columns before they are rounded to E. `to`
// may be the scores. If `kept` has memory, they are also written there, with non-temporal stores if the instruction set has them, so that
// fence_streaming_stores() must follow. `kept` begins on a cache line. If `slopes` has memory, exponentials that have been added are
// multiplied by it.
template <int kColumns, typename W, typename E>
void exponentiate(Isa isa, std::int64_t rows, const W* base, const W* scores, E* to, W* sums, const W* slopes = nullptr,
                  const RowsInBlocks<E>& kept = {});

// Caps scores: cap * tanh(inner * score). If `slopes` has memory, it gets 1 - tanh^2.
template <typename W>
void cap_scores(Isa isa, std::int64_t count, W inner, W cap, W* scores, W* slopes);

// Sets the columns from `count` on to 0: GEMMs may have left NaN there.
template <typename E>
void clear_columns(std::int64_t rows, std::int64_t columns, std::int64_t count, E* to) {
  if (count == columns) return;
  for (std::int64_t row = 0; row < rows; ++row) std::fill(to + row * columns + count, to + (row + 1) * columns, E());
}

// The numbers in the type E that GEMMs read: in place if they have it, else rounded into `to`.
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

// A matrix [row][column] as a packed panel: in place if panels have this layout, else packed into `to`.
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
