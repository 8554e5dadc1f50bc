// Random numbers, many at a time. An element depends only on its key and its index, not on the instruction set.
#pragma once

#include <cstdint>
#include <span>

#include "base/random.h"

namespace moesh::backend::cpu {

// Draws from the standard normal distribution, truncated to [-most, most].
class NormalDraws {
 public:
  NormalDraws();  // not truncated
  explicit NormalDraws(float most);

  // Draws the elements whose indices begin at `first`.
  void draw(RandomKey key, std::uint64_t first, std::span<float> to) const;

 private:
  float most_;
  float from_, to_;  // range of the uniform numbers that are transformed to normal ones
};

}  // namespace moesh::backend::cpu
