// Loops that are compiled three times, for any x86-64 CPU, for AVX2 and for AVX-512, and the arithmetic that vectorises inside them. They
// do not use fused multiply-add (-ffp-contract=off), so that all three give the same bits.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "backend/cpu/cache_line.h"
#include "backend/cpu/isa.h"
#include "backend/element.h"

// A lambda that is passed to vectorised() has this after its parameters, or its loop would not be compiled for these instruction sets.
#define MOESH_LOOP __attribute__((always_inline))

// Put before a loop whose iterations are independent, so that it is vectorised although its result may be in place of an operand.
#if defined(__clang__)
#define MOESH_BY_ELEMENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define MOESH_BY_ELEMENT _Pragma("GCC ivdep")
#endif

namespace moesh::backend::cpu {

#if defined(__x86_64__)
template <typename Loop>
[[gnu::target("avx2")]] void run_with_avx2(const Loop& loop) {
  loop();
}
template <typename Loop>
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]] void run_with_avx512(const Loop& loop) {
  loop();
}
#endif

template <typename Loop>
void vectorised(Isa isa, const Loop& loop) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return run_with_avx512(loop);
  if (isa == Isa::avx2) return run_with_avx2(loop);
#endif
  (void)isa;
  loop();
}

// Prefetches contiguous elements into the L1 cache.
template <typename T>
[[gnu::always_inline]] inline void prefetch(const T* run, std::int64_t count) {
  for (std::int64_t i = 0; i < count; i += kCacheLine<T>) __builtin_prefetch(run + i);
}

// Calls body(std::true_type()) or body(std::false_type()), so that a loop inside does not test the value again.
template <typename Body>
[[gnu::always_inline]] inline void with_constant(bool value, const Body& body) {
  if (value) body(std::true_type());
  else body(std::false_type());
}

// x = n ln 2 + r: the nearest n, in the low bits of a float, and e^r - 1 by its series.
struct PartsOfExp {
  float shifted, rest;
};
[[gnu::always_inline]] inline PartsOfExp parts_of_exp(float x) {
  constexpr float kShift = 12582912.0f;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
  const float shifted = x * 1.44269504089f + kShift;
  const float n = shifted - kShift;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float series = 1.9875691500e-4f;
  series = series * r + 1.3981999507e-3f;
  series = series * r + 8.3334519073e-3f;
  series = series * r + 4.1665795894e-2f;
  series = series * r + 1.6666665459e-1f;
  series = series * r + 5.0000001201e-1f;
  return {shifted, series * r * r + r};
}
// A number times 2^n, by adding n to its exponent: the bits that were added to n are shifted out.
[[gnu::always_inline]] inline float times_power(float number, float shifted) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(number) + (std::bit_cast<std::uint32_t>(shifted) << 23));
}

// e^x to 2 units in the last place; 0 where it would be subnormal.
[[gnu::always_inline]] inline float exp_of(float x) {
  const PartsOfExp of = parts_of_exp(x);
  const float scaled = times_power(of.rest + 1.0f, of.shifted);
  const float high = x <= 88.7228317f ? scaled : x + std::numeric_limits<float>::infinity();
  return x < -87.3365447f ? 0.0f : high;
}
[[gnu::always_inline]] inline double exp_of(double x) { return std::exp(x); }

// ln x of a normal number x above 0, to 2 units in the last place. x = 2^n (1 + m), where m is around 0.
[[gnu::always_inline]] inline float log_of(float x) {
  constexpr std::uint32_t kHalfRoot = 0x3F3504F3;  // the root of 1/2
  const std::uint32_t above = std::bit_cast<std::uint32_t>(x) - kHalfRoot;
  const auto power = static_cast<std::int32_t>(above) >> 23;
  const float m = std::bit_cast<float>((above & 0x7FFFFF) + kHalfRoot) - 1.0f;
  const auto n = static_cast<float>(power);
  float series = 7.0376836292e-2f;
  series = series * m - 1.1514610310e-1f;
  series = series * m + 1.1676998740e-1f;
  series = series * m - 1.2420140846e-1f;
  series = series * m + 1.4249322787e-1f;
  series = series * m - 1.6668057665e-1f;
  series = series * m + 2.0000714765e-1f;
  series = series * m - 2.4999993993e-1f;
  series = series * m + 3.3333331174e-1f;
  const float square = m * m;
  return (series * m * square - n * 2.12194440e-4f - 0.5f * square) + m + n * 0.693359375f;
}
[[gnu::always_inline]] inline double log_of(double x) { return std::log(x); }

// ln (1 + x) of x from 0 to 1, also of an x that is far smaller than 1: twice the inverse hyperbolic tangent of x / (2 + x).
[[gnu::always_inline]] inline float log_of_one_more(float x) {
  const float t = x / (2.0f + x), square = t * t;
  float series = 1.0f / 15;
  series = series * square + 1.0f / 13;
  series = series * square + 1.0f / 11;
  series = series * square + 1.0f / 9;
  series = series * square + 1.0f / 7;
  series = series * square + 1.0f / 5;
  series = series * square + 1.0f / 3;
  return 2.0f * t + 2.0f * t * square * series;
}
[[gnu::always_inline]] inline double log_of_one_more(double x) { return std::log1p(x); }

template <typename W>
[[gnu::always_inline]] inline W sigmoid_of(W x) {
  return W(1) / (W(1) + exp_of(-x));
}

// condition ? yes : no, without a branch: in a branch, GCC 12 would compute what follows from `yes` apart and not vectorise the loop.
[[gnu::always_inline]] inline float choice_of(bool condition, float yes, float no) {
  const std::uint32_t mask = 0u - static_cast<std::uint32_t>(condition);
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(yes) & mask) | (std::bit_cast<std::uint32_t>(no) & ~mask));
}

// tanh x and its derivative 1 - tanh^2 x, each to 4 units in the last place, also where tanh x is nearly 1. With e = e^-2|x|, they are
// (1 - e) / (1 + e) and 4 e / (1 + e)^2; e = 2^n e^r, and e^r - 1 by its series, from which 1 - e is made.
template <typename W>
struct TanhAndSlope {
  W tanh, slope;
};
[[gnu::always_inline]] inline TanhAndSlope<float> tanh_and_slope_of(float x) {
  constexpr float kMost = 43;  // e is a normal number up to here, and 1 - e is 1
  const float size = std::abs(x);
  const PartsOfExp of = parts_of_exp(-2.0f * choice_of(size > kMost, kMost, size));
  const float power = times_power(1.0f, of.shifted), rest = power * of.rest;
  const float e = rest + power, below_one = (1.0f - power) - rest, share = 1.0f / (1.0f + e);
  return {std::copysign(below_one * share, x), 4.0f * e * share * share};
}
[[gnu::always_inline]] inline TanhAndSlope<double> tanh_and_slope_of(double x) {
  const double tanh = std::tanh(x);
  return {tanh, 1 - tanh * tanh};
}

// Sine and cosine of an angle up to 2^29, to 1e-11. The angle is n pi / 2 + r, and r goes through the series of both.
struct SineAndCosine {
  double sine, cosine;
};
[[gnu::always_inline]] inline SineAndCosine sine_and_cosine_of(double angle) {
  constexpr double kShift = 6755399441055744.0;  // 1.5 * 2^52: adding it leaves the nearest integer in the low bits
  constexpr double kHigh = 1.57079637050628662109375, kLow = -4.37113900018624283e-8;  // their sum is pi / 2; n times the first is exact
  const double shifted = angle * 0.63661977236758134308 + kShift, n = shifted - kShift;
  const double r = (angle - n * kHigh) - n * kLow, square = r * r;
  double sine = -2.50521083854417188e-8, cosine = 2.08767569878680990e-9;
  sine = sine * square + 2.75573192239858907e-6;
  sine = sine * square - 1.98412698412698413e-4;
  sine = sine * square + 8.33333333333333333e-3;
  sine = sine * square - 1.66666666666666667e-1;
  sine = sine * square * r + r;
  cosine = cosine * square - 2.75573192239858907e-7;
  cosine = cosine * square + 2.48015873015873016e-5;
  cosine = cosine * square - 1.38888888888888889e-3;
  cosine = cosine * square + 4.16666666666666667e-2;
  cosine = cosine * square * square - 0.5 * square + 1;
  const auto quarters = std::bit_cast<std::uint64_t>(shifted);
  const double first = (quarters & 1) != 0 ? cosine : sine, second = (quarters & 1) != 0 ? sine : cosine;
  return {(quarters & 2) != 0 ? -first : first, ((quarters + 1) & 2) != 0 ? -second : second};
}

// A value as it would be after a store as T and a load.
template <typename T>
[[gnu::always_inline]] inline Wide<T> rounded(Wide<T> value) {
  return load(store<T>(value));
}

// Sums and maxima of a row go over fixed lanes, so that they vectorise and yet have one order.
inline constexpr std::int64_t kLanes = 32;  // enough that the compiler vectorises loops over them instead of unrolling these first

// The sum of term(i) over [0, count). begin(i) is called before each round of lanes.
template <typename W, typename Term, typename Begin>
[[gnu::always_inline]] inline W sum_of(std::int64_t count, const Term& term, const Begin& begin) {
  W lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    begin(i);
    for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
  }
  for (std::int64_t lane = 0; i + lane < count; ++lane) lanes[lane] += term(i + lane);
  for (std::int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::int64_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}
template <typename W, typename Term>
[[gnu::always_inline]] inline W sum_of(std::int64_t count, const Term& term) {
  return sum_of<W>(count, term, [](std::int64_t) {});
}

template <typename W, typename Term>
[[gnu::always_inline]] inline W largest_of(std::int64_t count, const Term& term) {
  W lanes[kLanes];
  for (W& lane : lanes) lane = -std::numeric_limits<W>::infinity();
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const W value = term(i + lane);
      lanes[lane] = value > lanes[lane] ? value : lanes[lane];
    }
  }
  W largest = -std::numeric_limits<W>::infinity();
  for (; i < count; ++i) largest = term(i) > largest ? term(i) : largest;
  for (const W lane : lanes) largest = lane > largest ? lane : largest;
  return largest;
}

}  // namespace moesh::backend::cpu
