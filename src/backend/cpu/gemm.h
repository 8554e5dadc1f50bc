// GEMM on operands whose elements lie anywhere, so that an einsum needs no transposed copies.
#pragma once

#include <cstdint>

#include "backend/cpu/isa.h"
#include "backend/cpu/offsets.h"
#include "backend/element.h"
#include "backend/workers.h"

namespace moesh::backend::cpu {

// Matrix `i` of a batch has its element (row, column) at data[batch[i] + rows[row] + columns[column]].
template <typename T>
struct Matrices {
  T* data;
  Offsets batch;
  Offsets rows;
  Offsets columns;
};

struct MultiplyOptions {
  bool add = false;  // c += a b, not c = a b
  // Grouped GEMM: product i takes the rows of a and c, or the depth (columns of a, rows of b), from begins[i] to begins[i + 1]. Empty: each
  // product takes all of them.
  Offsets row_begins = {};
  Offsets depth_begins = {};
};

// c = a b. The order in which the terms of an element are added depends only on the depth, so that its bits depend only on its row of a and
// its column of b. Without workers, the calling thread does all the work.
template <typename A, typename B, typename C>
void multiply(Workers* workers, Isa isa, const Matrices<const A>& a, const Matrices<const B>& b, const Matrices<C>& c,
              const MultiplyOptions& options = {});

}  // namespace moesh::backend::cpu
