// Where the rows and columns of operands lie, as offsets from their first elements.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "backend/scratch_list.h"

namespace moesh::backend::cpu {

struct Offsets : std::span<const std::int64_t> {
  using span::span;
  Offsets(span of) : span(of) {}  // NOLINT: a span is handed over as it is
  std::optional<std::int64_t> pitch = {};  // the distance from one to the next, if it is known to be the same throughout
};

class OffsetList {
 public:
  OffsetList(ScratchList<std::int64_t> list) : list_(std::move(list)), offsets_(list_) {}  // NOLINT: a list that was made is handed over
  OffsetList(ScratchList<std::int64_t>&& list, std::int64_t pitch) : OffsetList(std::move(list)) { offsets_.pitch = pitch; }
  OffsetList(std::span<const std::int64_t> kept, std::int64_t pitch) : offsets_(kept) { offsets_.pitch = pitch; }
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

// The distance from one offset to the next, if it is the same throughout.
inline std::optional<std::int64_t> pitch_of(const Offsets& offsets) {
  if (offsets.size() < 2) return 1;
  if (offsets.pitch) return offsets.pitch;
  const std::int64_t pitch = offsets[1] - offsets[0];
  std::int64_t others = 0;  // not 0 if a distance differs; without an early exit the loop vectorises
  for (std::size_t i = 2; i < offsets.size(); ++i) others |= (offsets[i] - offsets[i - 1]) ^ pitch;
  if (others != 0) return std::nullopt;
  return pitch;
}

// Whether the offsets are contiguous.
inline bool is_contiguous(const Offsets& offsets) { return pitch_of(offsets) == 1; }

// first, first + step, first + 2 step, ...
inline void lay_steps(std::int64_t first, std::int64_t step, std::int64_t count, std::int64_t* to) {
  for (std::int64_t i = 0, offset = first; i < count; ++i, offset += step) to[i] = offset;  // sums vectorise, 64-bit products do not
}
// 0, step, 2 step, ...
OffsetList steps(std::int64_t count, std::int64_t step);

}  // namespace moesh::backend::cpu
