// GEMM on operands whose elements lie anywhere, so that an einsum needs no transposed copies.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "backend/cpu/isa.h"
#include "backend/element.h"
#include "backend/scratch_list.h"
#include "backend/workers.h"

namespace moesh::backend::cpu {

struct Offsets : std::span<const std::int64_t> {
  using span::span;
  std::optional<std::int64_t> pitch = {};  // the distance from one to the next, if it is known to be the same throughout
};

class OffsetList {
 public:
  OffsetList(ScratchList<std::int64_t> list) : list_(std::move(list)), offsets_(list_) {}  // NOLINT: a list that was made is handed over
  OffsetList(ScratchList<std::int64_t> list, std::int64_t pitch) : OffsetList(std::move(list)) { offsets_.pitch = pitch; }
  explicit OffsetList(Offsets kept) : offsets_(kept) {}  // of a list that somebody keeps
  OffsetList(OffsetList&&) = default;
  OffsetList& operator=(OffsetList&&) = default;

  operator Offsets() const { return offsets_; }  // NOLINT: kernels take either
  std::size_t size() const { return offsets_.size(); }
  std::int64_t operator[](std::size_t i) const { return offsets_[i]; }
  std::int64_t back() const { return offsets_.back(); }

 private:
  ScratchList<std::int64_t> list_;
  Offsets offsets_;
};

// first, first + step, first + 2 step, ...
inline void lay_steps(std::int64_t first, std::int64_t step, std::int64_t count, std::int64_t* to) {
  for (std::int64_t i = 0, offset = first; i < count; ++i, offset += step) to[i] = offset;  // sums vectorise, 64-bit products do not
}
// 0, step, 2 step, ...
OffsetList steps(std::int64_t count, std::int64_t step);

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
