// Random numbers, many at a time. An element depends on its key and its index alone, not on the kind of instructions.
#pragma once

#include <cstdint>
#include <span>

#include "base/random.h"

namespace moesh::backend::cpu {

// The standard normal distribution, cut off outside of [-most, most].
class NormalDraws {
 public:
  NormalDraws();  // not cut off
  explicit NormalDraws(float most);

  // The elements from index `first` on.
  void draw(RandomKey key, std::uint64_t first, std::span<float> to) const;

 private:
  float most_;
  float from_, to_;  // of the uniform numbers that it is made of
};

}  // namespace moesh::backend::cpu
