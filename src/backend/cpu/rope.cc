// Rotary embedding: rotates pairs of elements of the last dim by angles that grow with the position.
#include <algorithm>
#include <cmath>

#include "backend/cpu/kernels.h"
#include "backend/cpu/simd.h"
#include "backend/scratch_list.h"
#include "backend/rope_frequencies.h"

namespace moesh::backend::cpu {
namespace {

using graph::RopeOf;

// Cosines and sines, in rows of `half`: one row per position if all positions are below the number of tokens, else one per token.
template <typename W>
class Angles {
 public:
  Angles(const KernelCall& call, const ScratchList<double>& frequencies, bool round_to_bfloat16)
      : positions_(call.operands[1].as<std::int32_t>()), half_(static_cast<std::int64_t>(frequencies.size())) {
    const std::int64_t tokens = call.operands[1].count();
    const auto [least, most] = std::minmax_element(positions_, positions_ + tokens);
    by_position_ = *least >= 0 && *most < tokens;
    const std::int64_t rows = by_position_ ? *most + 1 : tokens;
    cosines_.resize(static_cast<std::size_t>(rows * half_));
    sines_.resize(cosines_.size());
    call.workers.parallel(rows, 1 + 512 / half_, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const std::int32_t position = by_position_ ? static_cast<std::int32_t>(row) : positions_[row];
        lay_row(static_cast<W>(position), frequencies.data(), round_to_bfloat16, row * half_);
      }
    });
  }

  const W* cosines(std::int64_t token) const { return cosines_.data() + row_of(token) * half_; }
  const W* sines(std::int64_t token) const { return sines_.data() + row_of(token) * half_; }

 private:
  // Angles of float64 are for tests.
  void lay_row(W position, const double* frequencies, bool round_to_bfloat16, std::int64_t at) {
    W* __restrict const cosines = cosines_.data() + at;
    W* __restrict const sines = sines_.data() + at;
    vectorised(chosen_isa(), [&]() MOESH_LOOP {
      for (std::int64_t pair = 0; pair < half_; ++pair) {
        const W angle = position * static_cast<W>(frequencies[pair]);
        const SineAndCosine of = std::is_same_v<W, float> ? sine_and_cosine_of(angle) : SineAndCosine{std::sin(angle), std::cos(angle)};
        cosines[pair] = static_cast<W>(of.cosine);
        sines[pair] = static_cast<W>(of.sine);
      }
    });
    if (!round_to_bfloat16) return;
    for (W* const row : {cosines, sines}) {
      std::transform(row, row + half_, row, [](W value) { return static_cast<W>(rounded<bfloat16>(static_cast<float>(value))); });
    }
  }

  std::int64_t row_of(std::int64_t token) const { return by_position_ ? positions_[token] : token; }

  const std::int32_t* positions_;
  std::int64_t half_;
  bool by_position_ = false;
  ScratchList<W> cosines_;
  ScratchList<W> sines_;
};

// Where the elements of pair i of one head of one token are: the first at i * in_step, the second in_gap after it; likewise in the result.
struct Places {
  std::int64_t in_step, in_gap, out_step, out_gap;
};

template <typename W, bool steps_of_one, std::int64_t kHalf>
[[gnu::always_inline]] inline void rotate(const W* __restrict x, W* __restrict y, const W* __restrict cosines, const W* __restrict sines,
                                          std::int64_t any_half, const Places& places, W sign, W scale) {
  const std::int64_t half = kHalf > 0 ? kHalf : any_half;
  const std::int64_t in_step = steps_of_one ? 1 : places.in_step;
  const std::int64_t out_step = steps_of_one ? 1 : places.out_step;
  for (std::int64_t i = 0; i < half; ++i) {
    const W re = x[i * in_step], im = x[i * in_step + places.in_gap];
    const W sine = sign * sines[i];
    y[i * out_step] = (re * cosines[i] - im * sine) * scale;
    y[i * out_step + places.out_gap] = (im * cosines[i] + re * sine) * scale;
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
  const auto scale = static_cast<W>(rope_scale(of));
  T* const result = call.results[0].as<T>();
  // The reference implementation computes cosines and sines in the type of x only for the standard kind.
  const bool rounds = std::is_same_v<T, bfloat16> && of.kind == RopeOf::Kind::standard && !of.is_wide;
  const Angles<W> angles(call, rope_frequencies(of, width), rounds);
  // The elements of a pair are neighbours or half a head apart in the input, and always half a head apart in the result; the inverse takes
  // the latter and restores the order of the input.
  const Places halves{1, half, 1, half};
  const Places neighbours = of.inverse ? Places{1, half, 2, 1} : Places{2, 1, 1, half};
  const W sign = of.inverse ? W(-1) : W(1);
  const auto rotate_token = [&](std::int64_t token, const W* from, W* to) MOESH_LOOP {
    for (std::int64_t head = 0; head < heads; ++head, from += width, to += width) {
      const W *cosines = angles.cosines(token), *sines = angles.sines(token);
      if (of.interleave)
        rotate<W, false, 0>(from, to, cosines, sines, half, neighbours, sign, scale);
      else if (half == 16)
        rotate<W, true, 16>(from, to, cosines, sines, half, halves, sign, scale);
      else if (half == 32)
        rotate<W, true, 32>(from, to, cosines, sines, half, halves, sign, scale);
      else if (half == 64)
        rotate<W, true, 64>(from, to, cosines, sines, half, halves, sign, scale);
      else
        rotate<W, true, 0>(from, to, cosines, sines, half, halves, sign, scale);
    }
  };
  const Isa isa = chosen_isa();
  const std::int64_t of_token = heads * width;
  call.workers.parallel(tokens, 1 + 8192 / of_token, [&](std::int64_t begin, std::int64_t end) {
    if constexpr (std::is_same_v<T, W>) {
      vectorised(isa, [&]() MOESH_LOOP {
        for (std::int64_t token = begin; token < end; ++token) rotate_token(token, x.as<T>() + token * of_token, result + token * of_token);
      });
    } else {
      // Half a head is too short for vectors of 16-bit elements, so all heads of a token are converted at once.
      ScratchList<W> wide(static_cast<std::size_t>(of_token)), rotated(wide.size());
      vectorised(isa, [&]() MOESH_LOOP {
        for (std::int64_t token = begin; token < end; ++token) {
          const T* __restrict from = x.as<T>() + token * of_token;
          T* __restrict to = result + token * of_token;
          for (std::int64_t i = 0; i < of_token; ++i) wide.data()[i] = load(from[i]);
          rotate_token(token, wide.data(), rotated.data());
          for (std::int64_t i = 0; i < of_token; ++i) to[i] = store<T>(rotated.data()[i]);
        }
      });
    }
  });
}

}  // namespace

void rope(const KernelCall& call) {
  for_floating(call.results[0].dtype, [&]<typename T>() { rope_of<T>(call); });
}

// Positions are mostly consecutive, so that neighbours mostly share their factor, which is computed only when it changes.
void temper(const KernelCall& call) {
  const auto& of = std::get<graph::TemperOf>(call.attributes);
  const auto* places = call.operands[0].as<std::int32_t>();
  auto* factors = call.results[0].as<float>();
  double floors = 0;
  float factor = 1;
  for (std::int64_t i = 0; i < call.results[0].count(); ++i) {
    const double here = std::floor((static_cast<double>(places[i]) + 1) / of.floor);
    if (here != floors) factor = static_cast<float>(1 + of.scale * std::log1p(here));
    floors = here;
    factors[i] = factor;
  }
}

}  // namespace moesh::backend::cpu
