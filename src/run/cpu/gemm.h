// Matrix products of elements that lie anywhere: an einsum needs no transposed copies.
#pragma once

#include <cstdint>
#include <span>

#include "run/cpu/element.h"
#include "run/cpu/isa.h"
#include "run/workers.h"

namespace moesh::run::cpu {

// Matrix `i` of a batch has its element (row, column) at data[batch[i] + rows[row] + columns[column]].
template <typename T>
struct Matrices {
  T* data;
  std::span<const std::int64_t> batch;
  std::span<const std::int64_t> rows;
  std::span<const std::int64_t> columns;
};

// c = a b, or c += a b; A may be the wide type of B. An element is a sum of sums: of 256 terms each, every one from zero and in order. So its bits depend
// on its row of a and its column of b alone. Without workers the calling thread does it all.
template <typename A, typename B, typename C>
void multiply(Workers* workers, Isa isa, const Matrices<const A>& a, const Matrices<const B>& b, const Matrices<C>& c,
              bool add = false);

}  // namespace moesh::run::cpu
