// The numbers of a step that update kernels receive, see graph::UpdateNumber.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "backend/kernel.h"

namespace moesh::backend {

inline constexpr double kClipEpsilon = 1e-6;  // added to the scores of a clip_update, as in MaxText

struct UpdateNumbers {
  float rate, step, factor;
  bool is_applied;

  // Reads the last operand of the call.
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

// The share of gradients in a moment that began at 0 and decays at this rate; moments are divided by it. In float32, as in optax:
// for a rate of 0.999 up to 2e-5 of its value off.
inline float bias_correction(double beta, float step) {
  return 1 - static_cast<float>(std::pow(static_cast<double>(static_cast<float>(beta)), static_cast<double>(step)));
}

// A decay rate with the correction in it, as Pax has it.
inline float pax_decay(double beta, float step) {
  return static_cast<float>(beta) * bias_correction(beta, step - 1) / bias_correction(beta, step);
}

// For a step whose update is not applied: result i is a bit-for-bit copy of the operand with index operands[i]. A result may share memory
// with any operand, even with that of another result, so a piece of all operands is read before any of it is written.
template <std::size_t Kept>
void keep(const KernelCall& call, const std::array<std::size_t, Kept>& operands) {
  constexpr std::int64_t kPiece = 1024;  // elements
  std::byte pieces[Kept][kPiece * sizeof(double)];
  const std::int64_t count = call.results[0].count();
  for (std::int64_t begin = 0; begin < count; begin += kPiece) {
    const std::int64_t length = std::min(kPiece, count - begin);
    const auto part = [&](const View& of) { return of.raw() + begin * size_of(of.dtype); };
    const auto bytes = [&](const View& of) { return static_cast<std::size_t>(length * size_of(of.dtype)); };
    for (std::size_t i = 0; i < Kept; ++i) std::memcpy(pieces[i], part(call.operands[operands[i]]), bytes(call.operands[operands[i]]));
    for (std::size_t i = 0; i < Kept; ++i) std::memcpy(part(call.results[i]), pieces[i], bytes(call.results[i]));
  }
}

}  // namespace moesh::backend
