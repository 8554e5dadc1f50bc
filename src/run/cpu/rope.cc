// Rotary embedding: turns pairs of elements of the last dim by angles that grow with the position.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "run/cpu/kernels.h"
#include "run/cpu/simd.h"

namespace moesh::run::cpu {
namespace {

using graph::RopeOf;

constexpr double kTurn = 2 * std::numbers::pi;

// Llama 3.1's rule: waves longer than its first training length are stretched by 8, those shorter than a quarter of it
// are kept, and between the two the share of each grows evenly.
double llama3_frequency(double frequency) {
  constexpr double kFactor = 8, kLow = 1, kHigh = 4, kOriginalLength = 8192;
  const double wave = kTurn / frequency;
  if (wave < kOriginalLength / kHigh) return frequency;
  if (wave > kOriginalLength / kLow) return frequency / kFactor;
  const double kept = (kOriginalLength / wave - kLow) / (kHigh - kLow);
  return (1 - kept) * frequency / kFactor + kept * frequency;
}

// YaRN: pairs that turn more than beta_fast times over the original length keep their frequency, those that turn less than
// beta_slow times have it divided by the factor; between the two, along the pairs, the share of each grows evenly.
struct YarnRamp {
  double low;
  double high;

  YarnRamp(const RopeOf& of, std::int64_t width) {
    const auto pair_that_turns = [&](double times) {
      return static_cast<double>(width) * std::log(static_cast<double>(of.original_max_positions) / (times * kTurn)) /
             (2 * std::log(of.max_timescale));
    };
    low = pair_that_turns(of.beta_fast);
    high = pair_that_turns(of.beta_slow);
    if (of.truncate) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, static_cast<double>(width - 1));
    if (low == high) high += 0.001;
  }
  double divided(std::int64_t pair) const { return std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0); }
};

// What turns a row. Angles are in the type that is computed with, formed as the reference forms them: position times
// frequency for YaRN, position over timescale for the others.
template <typename W>
struct Turning {
  std::vector<W> rates;
  bool multiplies = false;
  bool pairs_in = false;   // pairs are (2i, 2i + 1), not (i, i + half)
  bool pairs_out = false;
  W scale = 1;

  W angle(std::int32_t position, std::size_t pair) const {
    return multiplies ? static_cast<W>(position) * rates[pair] : static_cast<W>(position) / rates[pair];
  }
};

template <typename W>
Turning<W> turning_of(const RopeOf& of, std::int64_t width) {
  Turning<W> turning;
  const std::int64_t half = width / 2;
  const bool yarn = of.kind == RopeOf::Kind::yarn;
  const YarnRamp ramp(of, width);
  for (std::int64_t pair = 0; pair < half; ++pair) {
    const double fraction = static_cast<double>(2 * pair) / static_cast<double>(width);
    double rate = of.min_timescale * std::pow(of.max_timescale / of.min_timescale, fraction) * of.linear_scaling;
    if (of.kind == RopeOf::Kind::llama3) rate = 1 / llama3_frequency(1 / rate);
    if (yarn) {
      const double frequency = 1 / std::pow(of.max_timescale, fraction);
      rate = frequency / of.factor * ramp.divided(pair) + frequency * (1 - ramp.divided(pair));
    }
    turning.rates.push_back(static_cast<W>(rate));
  }
  turning.multiplies = yarn;
  turning.pairs_in = of.interleave || of.kind == RopeOf::Kind::llama3;
  turning.pairs_out = of.kind == RopeOf::Kind::llama3;
  if (yarn && of.attention_scaling && of.factor > 1) turning.scale = static_cast<W>(0.1 * std::log(of.factor) + 1);
  return turning;
}

// Cosines and sines, a row of `half` each for every distinct position when these are few, else for every token.
template <typename W>
class Angles {
 public:
  Angles(const KernelCall& call, const Turning<W>& turning, bool round_to_bfloat16)
      : positions_(call.operands[1].as<std::int32_t>()), half_(static_cast<std::int64_t>(turning.rates.size())) {
    const std::int64_t tokens = call.operands[1].count();
    const auto [least, most] = std::minmax_element(positions_, positions_ + tokens);
    by_position_ = *least >= 0 && *most < tokens;
    const std::int64_t rows = by_position_ ? *most + 1 : tokens;
    cosines_.resize(static_cast<std::size_t>(rows * half_));
    sines_.resize(cosines_.size());
    call.workers.parallel(rows, 1 + 512 / half_, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int32_t position = by_position_ ? static_cast<std::int32_t>(row) : positions_[row];
        for (std::size_t pair = 0; pair < turning.rates.size(); ++pair) {
          const W angle = turning.angle(position, pair);
          const std::size_t at = static_cast<std::size_t>(row * half_) + pair;
          cosines_[at] = round_to_bfloat16 ? store<W>(load(store<bfloat16>(std::cos(angle)))) : std::cos(angle);
          sines_[at] = round_to_bfloat16 ? store<W>(load(store<bfloat16>(std::sin(angle)))) : std::sin(angle);
        }
      }
    });
  }

  const W* cosines(std::int64_t token) const { return cosines_.data() + row_of(token) * half_; }
  const W* sines(std::int64_t token) const { return sines_.data() + row_of(token) * half_; }

 private:
  std::int64_t row_of(std::int64_t token) const { return by_position_ ? positions_[token] : token; }

  const std::int32_t* positions_;
  std::int64_t half_;
  bool by_position_ = false;
  std::vector<W> cosines_;
  std::vector<W> sines_;
};

// One head of one token. Where the halves of pair i lie: i * in_step and in_gap behind it; likewise in the result.
struct Places {
  std::int64_t in_step, in_gap, out_step, out_gap;
};

template <typename T, bool steps_of_one>
[[gnu::always_inline]] inline void turn(const T* __restrict x, T* __restrict y, const Wide<T>* __restrict cosines,
                                        const Wide<T>* __restrict sines, std::int64_t half, const Places& places,
                                        Wide<T> sign, Wide<T> scale) {
  using W = Wide<T>;
  const std::int64_t in_step = steps_of_one ? 1 : places.in_step;
  const std::int64_t out_step = steps_of_one ? 1 : places.out_step;
  for (std::int64_t i = 0; i < half; ++i) {
    const W re = load(x[i * in_step]);
    const W im = load(x[i * in_step + places.in_gap]);
    const W sine = sign * sines[i];
    y[i * out_step] = store<T>((re * cosines[i] - im * sine) * scale);
    y[i * out_step + places.out_gap] = store<T>((im * cosines[i] + re * sine) * scale);
  }
}

template <typename T>
void rope_of(const KernelCall& call) {
  using W = Wide<T>;
  const RopeOf& of = std::get<RopeOf>(call.attributes);
  const View& x = call.operands[0];
  const std::int64_t width = x.shape.back();
  const std::int64_t half = width / 2;
  const std::int64_t tokens = call.operands[1].count();
  if (tokens == 0 || x.count() == 0) return;
  const std::int64_t heads = x.count() / (tokens * width);
  const Turning<W> turning = turning_of<W>(of, width);
  // The reference forms cosines and sines in the type only for the standard kind.
  const Angles<W> angles(call, turning, std::is_same_v<T, bfloat16> && of.kind == RopeOf::Kind::standard);
  const auto places_of = [&](bool pairs) { return pairs ? std::pair{std::int64_t{2}, std::int64_t{1}} : std::pair{std::int64_t{1}, half}; };
  const auto [in_step, in_gap] = places_of(of.inverse ? turning.pairs_out : turning.pairs_in);
  const auto [out_step, out_gap] = places_of(of.inverse ? turning.pairs_in : turning.pairs_out);
  const Places places{in_step, in_gap, out_step, out_gap};
  const bool steps_of_one = in_step == 1 && out_step == 1;
  const W sign = of.inverse ? W(-1) : W(1);
  const Isa isa = chosen_isa();
  call.workers.parallel(tokens, 1 + 8192 / (heads * width), [&](std::int64_t begin, std::int64_t end) {
    vectorised(isa, [&]() MOESH_LOOP {
      for (std::int64_t row = begin * heads; row < end * heads; ++row) {
        const std::int64_t token = row / heads;
        const T* from = x.as<T>() + row * width;
        T* to = call.results[0].as<T>() + row * width;
        if (steps_of_one) {
          turn<T, true>(from, to, angles.cosines(token), angles.sines(token), half, places, sign, turning.scale);
        } else {
          turn<T, false>(from, to, angles.cosines(token), angles.sines(token), half, places, sign, turning.scale);
        }
      }
    });
  });
}

}  // namespace

void rope(const KernelCall& call) {
  for_floating(call.results[0].dtype, [&]<typename T>() { rope_of<T>(call); });
}

}  // namespace moesh::run::cpu
