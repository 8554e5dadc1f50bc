#include "backend/cpu/draws.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "backend/cpu/simd.h"

namespace moesh::backend::cpu {
namespace {

constexpr float kRootOfTwo = 1.41421356f;

using Coefficients = std::array<float, 9>;

template <std::size_t... i>
[[gnu::always_inline]] inline float polynomial(float x, bool takes_first, const Coefficients& first, const Coefficients& second,
                                               std::index_sequence<i...>) {
  float sum = 0;
  ((sum = sum * x + (takes_first ? first[i] : second[i])), ...);
  return sum;
}

// Giles' approximation of the inverse error function in single precision, between -1 and 1.
[[gnu::always_inline]] inline float inverse_erf(float x) {
  constexpr Coefficients kCentral{2.81022636e-08f, 3.43273939e-07f,  -3.5233877e-06f, -4.39150654e-06f, 0.00021858087f,
                                  -0.00125372503f, -0.00417768164f, 0.246640727f,    1.50140941f};
  constexpr Coefficients kTail{-0.000200214257f, 0.000100950558f, 0.00134934322f, -0.00367342844f, 0.00573950773f,
                               -0.0076224613f,   0.00943887047f,  1.00167406f,    2.83297682f};
  // -ln(1 - x^2), corrected for what is lost when 1 - x^2 is rounded.
  const float square = x * x, rest = 1.0f - square;
  const float w = -(log_of(rest) - (square - (1.0f - rest)) / rest);
  const bool is_central = w < 5;
  return x * polynomial(is_central ? w - 2.5f : std::sqrt(w) - 3.0f, is_central, kCentral, kTail, std::make_index_sequence<9>());
}

}  // namespace

NormalDraws::NormalDraws() : most_(std::numeric_limits<float>::infinity()), from_(std::nextafter(-1.0f, 0.0f)), to_(1) {}

NormalDraws::NormalDraws(float most)
    : most_(std::nextafter(most, 0.0f)), from_(-std::erf(most / kRootOfTwo)), to_(std::erf(most / kRootOfTwo)) {}

void NormalDraws::draw(RandomKey key, std::uint64_t first, std::span<float> to) const {
  const Isa isa = chosen_isa();
  constexpr std::uint64_t kLow = std::uint64_t{1} << 32;  // values of a counter's low word; within a piece the high word does not change
  while (!to.empty()) {
    const std::span<float> piece = to.first(std::min<std::uint64_t>(to.size(), kLow - first % kLow));
    const auto high = static_cast<std::uint32_t>(first / kLow), low = static_cast<std::uint32_t>(first % kLow);
    vectorised(isa, [&]() MOESH_LOOP {
      float* const out = piece.data();
      const float from = from_, width = to_ - from_, most = most_;
      for (std::size_t i = 0; i < piece.size(); ++i) {
        const std::array<std::uint32_t, 2> bits = threefry(key, {high, low + static_cast<std::uint32_t>(i)});
        const float uniform = unit_of(bits[0] ^ bits[1]) * width + from;
        const float x = kRootOfTwo * inverse_erf(uniform < from ? from : uniform);
        out[i] = x < -most ? -most : x > most ? most : x;
      }
    });
    first += piece.size();
    to = to.subspan(piece.size());
  }
}

}  // namespace moesh::backend::cpu
