// What kernels of updates are told of the step, see graph::UpdateNumber.
#pragma once

#include <cstring>

#include "run/kernel.h"

namespace moesh::run {

struct UpdateNumbers {
  float rate, step, factor;
  bool is_applied;

  // The last operand of the call.
  explicit UpdateNumbers(const KernelCall& call)
      : rate(of(call, graph::UpdateNumber::rate)),
        step(of(call, graph::UpdateNumber::step)),
        factor(of(call, graph::UpdateNumber::factor)),
        is_applied(of(call, graph::UpdateNumber::applied) != 0) {}

 private:
  static float of(const KernelCall& call, graph::UpdateNumber number) {
    return call.operands.back().as<float>()[static_cast<std::size_t>(number)];
  }
};

// An operand as it is, where the update is not applied. The new value may be made in the same place.
inline void keep(const View& old_value, const View& new_value) {
  if (new_value.data == old_value.data) return;
  std::memcpy(new_value.data, old_value.data,
              static_cast<std::size_t>(old_value.count() * size_of(old_value.dtype)));
}

}  // namespace moesh::run
