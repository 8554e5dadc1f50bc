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

// c = a b, or c += a b. An element is a sum of sums: of 256 terms each, every one from zero and in order. So its bits depend
// on its row of a and its column of b alone. Without workers the calling thread does it all.
template <typename T, typename R>
void multiply(Workers* workers, Isa isa, const Matrices<const T>& a, const Matrices<const T>& b, const Matrices<R>& c,
              bool add = false);

}  // namespace moesh::run::cpu
