// Rotary embedding: turns pairs of elements of the last dim by angles that grow with the position.
#include <algorithm>
#include <cmath>

#include "backend/cpu/kernels.h"
#include "backend/cpu/simd.h"
#include "backend/scratch_list.h"
#include "backend/rope_frequencies.h"

namespace moesh::backend::cpu {
namespace {

using graph::RopeOf;

// Cosines and sines, a row of `half` each for every distinct position when these are few, else for every token.
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
        for (std::size_t pair = 0; pair < frequencies.size(); ++pair) {
          const W angle = static_cast<W>(position) * static_cast<W>(frequencies[pair]);
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
  ScratchList<W> cosines_;
  ScratchList<W> sines_;
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
  const auto scale = static_cast<W>(rope_scale(of));
  // The reference forms cosines and sines in the type only for the standard kind.
  const Angles<W> angles(call, rope_frequencies(of, width), std::is_same_v<T, bfloat16> && of.kind == RopeOf::Kind::standard);
  // Pairs come as neighbours or as halves, and leave as halves; the inverse takes halves and gives back what came.
  const Places halves{1, half, 1, half};
  const Places neighbours = of.inverse ? Places{1, half, 2, 1} : Places{2, 1, 1, half};
  const W sign = of.inverse ? W(-1) : W(1);
  const Isa isa = chosen_isa();
  call.workers.parallel(tokens, 1 + 8192 / (heads * width), [&](std::int64_t begin, std::int64_t end) {
    vectorised(isa, [&]() MOESH_LOOP {
      for (std::int64_t row = begin * heads; row < end * heads; ++row) {
        const std::int64_t token = row / heads;
        const T* from = x.as<T>() + row * width;
        T* to = call.results[0].as<T>() + row * width;
        if (of.interleave) {
          turn<T, false>(from, to, angles.cosines(token), angles.sines(token), half, neighbours, sign, scale);
        } else {
          turn<T, true>(from, to, angles.cosines(token), angles.sines(token), half, halves, sign, scale);
        }
      }
    });
  });
}

}  // namespace

void rope(const KernelCall& call) {
  for_floating(call.results[0].dtype, [&]<typename T>() { rope_of<T>(call); });
}

}  // namespace moesh::backend::cpu
