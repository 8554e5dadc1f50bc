// Optimizer updates of parameters, and the sums of squares from which norms are computed.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "backend/cpu/kernels.h"
#include "backend/cpu/simd.h"
#include "backend/scratch_list.h"
#include "backend/update_numbers.h"
#include "base/rounding.h"

namespace moesh::backend::cpu {
namespace {

using graph::AdamOf;
using graph::MomentumOf;
using graph::SgdOf;

constexpr std::int64_t kGrain = 16384;
constexpr std::int64_t kPiece = 256;  // elements that are widened at a time

template <typename W>
void widen(Isa isa, const View& from, std::int64_t begin, std::int64_t count, W* __restrict to) {
  for_floating(from.dtype, [&]<typename T>() {
    const T* __restrict source = from.as<T>() + begin;
    vectorised(isa, [&]() MOESH_LOOP {
      for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<W>(load(source[i]));
    });
  });
}

template <typename W>
void narrow(Isa isa, const W* __restrict from, std::int64_t count, const View& to, std::int64_t begin) {
  for_floating(to.dtype, [&]<typename T>() {
    T* __restrict result = to.as<T>() + begin;
    vectorised(isa, [&]() MOESH_LOOP {
      for (std::int64_t i = 0; i < count; ++i) result[i] = store<T>(from[i]);
    });
  });
}

// Calls body(begin, count) for pieces of [begin, end).
template <typename Body>
void for_pieces(std::int64_t begin, std::int64_t end, const Body& body) {
  for (; begin < end; begin += kPiece) body(begin, std::min(kPiece, end - begin));
}

// The same for all elements of the first result, on all threads.
template <typename Body>
void for_pieces(const KernelCall& call, const Body& body) {
  call.workers.parallel(call.results[0].count(), kGrain, [&](std::int64_t begin, std::int64_t end) { for_pieces(begin, end, body); });
}

// The coefficients of a step. The gradient g is multiplied by `factor`; the moments mu and nu decay and take in g and its square; the
// update is (of_mu mu + of_gradient g) / (sqrt(of_nu nu + epsilon_root) + epsilon) + decay p, times the rate.
struct AdamStep {
  double factor, rate, decay1, decay2, rest1, rest2, of_mu, of_gradient, of_nu, epsilon, epsilon_root, decay;
};

AdamStep adam_step(const AdamOf& of, const UpdateNumbers& numbers) {
  AdamStep made{numbers.factor, numbers.rate, of.mu_decay, of.nu_decay, 1 - of.beta1, 1 - of.beta2, 1, 0, 1, of.epsilon, of.epsilon_root,
                of.weight_decay};
  const auto corrected = [](double beta, float step) { return 1 / static_cast<double>(bias_correction(beta, step)); };
  if (of.pax) {
    made.decay1 = static_cast<double>(pax_decay(of.beta1, numbers.step));
    made.decay2 = static_cast<double>(pax_decay(of.beta2, numbers.step));
    made.rest1 = 1 - made.decay1;
    made.rest2 = 1 - made.decay2;
    return made;
  }
  made.of_nu = corrected(of.beta2, numbers.step);
  made.of_mu = corrected(of.beta1, of.nesterov ? numbers.step + 1 : numbers.step);
  if (of.nesterov) {
    made.of_mu *= of.beta1;
    made.of_gradient = (1 - of.beta1) * corrected(of.beta1, numbers.step);
  }
  return made;
}

template <typename T>
struct AdamArrays {
  const T *p, *g, *mu, *nu;
  T *new_p, *new_mu, *new_nu;  // each may be the old array
};

template <typename T>
void update_elements(Isa isa, const AdamStep& step, std::int64_t count, const AdamArrays<T>& of) {
  using W = Wide<T>;
  const W factor = W(step.factor), rate = W(step.rate), decay1 = W(step.decay1), decay2 = W(step.decay2), of_mu = W(step.of_mu);
  const W of_gradient = W(step.of_gradient), of_nu = W(step.of_nu), epsilon = W(step.epsilon);
  const W epsilon_root = W(step.epsilon_root), decay = W(step.decay);
  const W rest1 = W(step.rest1), rest2 = W(step.rest2);
  vectorised(isa, [=]() MOESH_LOOP {
    MOESH_BY_ELEMENT
    for (std::int64_t i = 0; i < count; ++i) {
      const W p = load(of.p[i]), g = load(of.g[i]) * factor;
      const W mu = decay1 * load(of.mu[i]) + rest1 * g;
      const W nu = decay2 * load(of.nu[i]) + rest2 * (g * g);
      const W along = of_mu * mu + of_gradient * g;
      of.new_p[i] = store<T>(p - rate * (along / (std::sqrt(of_nu * nu + epsilon_root) + epsilon) + decay * p));
      of.new_mu[i] = store<T>(mu);
      of.new_nu[i] = store<T>(nu);
    }
  });
}

template <typename T>
void update_where_they_lie(Isa isa, const AdamStep& step, const KernelCall& call, std::int64_t begin, std::int64_t count) {
  const auto from = [&](std::size_t i) { return call.operands[i].as<T>() + begin; };
  const auto to = [&](std::size_t i) { return call.results[i].as<T>() + begin; };
  update_elements<T>(isa, step, count, {from(0), from(1), from(2), from(3), to(0), to(1), to(2)});
}

template <typename W>
void update_by_pieces(Isa isa, const AdamStep& step, const KernelCall& call, std::int64_t begin, std::int64_t end) {
  for_pieces(begin, end, [&](std::int64_t first, std::int64_t count) {
    W p[kPiece], g[kPiece], mu[kPiece], nu[kPiece];
    W* const pieces[] = {p, g, mu, nu};
    for (std::size_t i = 0; i < 4; ++i) widen(isa, call.operands[i], first, count, pieces[i]);
    update_elements<W>(isa, step, count, {p, g, mu, nu, p, mu, nu});
    narrow(isa, p, count, call.results[0], first);
    narrow(isa, mu, count, call.results[1], first);
    narrow(isa, nu, count, call.results[2], first);
  });
}

// An update by pieces waits for memory in each of its passes. If all arrays have one type, they are read and written in a single pass
// instead, which is three times as fast.
template <typename T>
void adam_update_of(Isa isa, const AdamStep& step, const KernelCall& call, std::int64_t begin, std::int64_t end) {
  const auto has_type = [&](std::size_t i) { return call.operands[i].dtype == call.results[0].dtype; };
  if (has_type(1) && has_type(2) && has_type(3)) update_where_they_lie<T>(isa, step, call, begin, end - begin);
  else update_by_pieces<Wide<T>>(isa, step, call, begin, end);
}

constexpr std::int64_t kSquaresAhead = 256;  // prefetch distance, in elements

template <typename T>
double squares_of(Isa isa, const T* __restrict from, std::int64_t count) {
  double sum = 0;
  const auto square = [&](std::int64_t i) MOESH_LOOP {
    const double value = static_cast<double>(load(from[i]));
    return value * value;
  };
  vectorised(isa, [&]() MOESH_LOOP {
    sum = sum_of<double>(count, square, [&](std::int64_t i) MOESH_LOOP { prefetch(from + i + kSquaresAhead, kLanes); });
  });
  return sum;
}

// The sum of squares of a tensor: one sum per block of elements, added up in the order of the blocks.
class SquaresOf {
 public:
  explicit SquaresOf(const View& values) : values_(values), sums_(static_cast<std::size_t>(divide_up(values.count(), kGrain))) {}

  // Computes the sum of the block [begin, end).
  void see(std::int64_t begin, std::int64_t end) {
    for_floating(values_.dtype, [&]<typename T>() {
      sums_[static_cast<std::size_t>(begin / kGrain)] = squares_of(chosen_isa(), values_.as<T>() + begin, end - begin);
    });
  }
  void give(const View& result) const {
    const double total = std::accumulate(sums_.begin(), sums_.end(), 0.0);
    for_floating(result.dtype, [&]<typename R>() { *result.as<R>() = store<R>(total); });
  }

 private:
  const View& values_;
  ScratchList<double> sums_;
};

template <typename T>
void sgd_update_of(const KernelCall& call) {
  using W = Wide<T>;
  const UpdateNumbers numbers(call);
  const W rate = static_cast<W>(numbers.rate);
  const W factor = static_cast<W>(numbers.factor);
  const W decay = static_cast<W>(std::get<SgdOf>(call.attributes).weight_decay);
  const Isa isa = chosen_isa();
  for_pieces(call, [&](std::int64_t begin, std::int64_t count) {
    W p[kPiece], update[kPiece];
    widen(isa, call.operands[0], begin, count, p);
    widen(isa, call.operands[1], begin, count, update);
    vectorised(isa, [&]() MOESH_LOOP {
      for (std::int64_t i = 0; i < count; ++i) p[i] -= rate * (factor * update[i] + decay * p[i]);
    });
    narrow(isa, p, count, call.results[0], begin);
  });
}

}  // namespace

void sum_squares(const KernelCall& call) {
  SquaresOf squares(call.operands[0]);
  call.workers.parallel(call.operands[0].count(), kGrain, [&](std::int64_t begin, std::int64_t end) { squares.see(begin, end); });
  squares.give(call.results[0]);
}

void adam_update(const KernelCall& call) {
  const View& parameter = call.results[0];
  const UpdateNumbers numbers(call);
  const AdamStep step = adam_step(std::get<AdamOf>(call.attributes), numbers);
  const Isa isa = chosen_isa();
  std::optional<SquaresOf> squares;
  if (call.results.size() > 3) squares.emplace(parameter);
  if (!numbers.is_applied) keep<3>(call, {0, 2, 3});
  if (!numbers.is_applied && !squares) return;
  for_floating(parameter.dtype, [&]<typename T>() {
    call.workers.parallel(parameter.count(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      if (numbers.is_applied) adam_update_of<T>(isa, step, call, begin, end);
      if (squares) squares->see(begin, end);
    });
  });
  if (squares) squares->give(call.results[3]);
}

void sgd_update(const KernelCall& call) {
  if (!UpdateNumbers(call).is_applied) return keep<1>(call, {0});
  for_floating(call.results[0].dtype, [&]<typename T>() { sgd_update_of<T>(call); });
}

// The operands are the gradient and mu; the results are the new mu and the direction. If the update is not applied, mu keeps its bits.
void momentum_update(const KernelCall& call) {
  const auto& of = std::get<MomentumOf>(call.attributes);
  const UpdateNumbers numbers(call);
  const auto corrected = [&](float step) { return 1 / static_cast<double>(bias_correction(of.beta, step)); };
  const auto factor = numbers.factor, decay = static_cast<float>(of.decay), rest = static_cast<float>(1 - of.beta);
  const auto of_mu = static_cast<float>(of.beta * corrected(numbers.step + 1));
  const auto of_gradient = static_cast<float>((1 - of.beta) * corrected(numbers.step));
  const Isa isa = chosen_isa();
  for_pieces(call, [&](std::int64_t begin, std::int64_t count) {
    float g[kPiece], mu[kPiece], direction[kPiece];
    std::byte old_mu[kPiece * sizeof(double)];
    const std::int64_t size = size_of(call.operands[1].dtype);
    std::memcpy(old_mu, call.operands[1].raw() + begin * size, static_cast<std::size_t>(count * size));
    widen(isa, call.operands[0], begin, count, g);
    widen(isa, call.operands[1], begin, count, mu);
    vectorised(isa, [&]() MOESH_LOOP {
      for (std::int64_t i = 0; i < count; ++i) {
        g[i] *= factor;
        mu[i] = decay * mu[i] + rest * g[i];
        direction[i] = of_mu * mu[i] + of_gradient * g[i];
      }
    });
    if (numbers.is_applied) {
      narrow(isa, mu, count, call.results[0], begin);
    } else {
      std::memcpy(call.results[0].raw() + begin * size, old_mu, static_cast<std::size_t>(count * size));
    }
    narrow(isa, direction, count, call.results[1], begin);
  });
}

// For each microbatch, the bias of an expert moves by the rate towards the mean load of its layer; the sum of these steps is rounded to the
// type of the bias before it is added. The dims of the layers are before and after the dim of the experts.
void balance_update(const KernelCall& call) {
  const auto& of = std::get<graph::BalanceOf>(call.attributes);
  const View& bias = call.operands[0];
  const View& load_of = call.operands[1];  // [microbatches, layers, experts + 1], the last one for what was dropped
  if (!UpdateNumbers(call).is_applied) return keep<1>(call, {0});
  const std::int64_t experts = load_of.size(2) - 1, layers = load_of.size(1);
  const std::int64_t inner = elements({bias.shape.begin() + of.experts_dim + 1, bias.shape.end()});
  const auto rate = static_cast<float>(of.rate);
  call.workers.parallel(layers, 1 + kGrain / (experts + 1), [&](std::int64_t begin, std::int64_t end) {
    ScratchList<float> steps(static_cast<std::size_t>(experts));
    for (std::int64_t layer = begin; layer < end; ++layer) {
      std::fill(steps.begin(), steps.end(), 0.0f);
      for (std::int64_t microbatch = 0; microbatch < load_of.size(0); ++microbatch) {
        const float* tokens = load_of.as<float>() + (microbatch * layers + layer) * (experts + 1);
        const float mean = std::accumulate(tokens, tokens + experts, 0.0f) / static_cast<float>(experts);
        for (std::size_t e = 0; e < steps.size(); ++e) steps[e] += tokens[e] < mean ? rate : tokens[e] > mean ? -rate : 0;
      }
      const std::int64_t first = layer / inner * experts * inner + layer % inner;
      for_floating(bias.dtype, [&]<typename T>() {
        for (std::int64_t e = 0; e < experts; ++e) {
          const std::int64_t at = first + e * inner;
          call.results[0].as<T>()[at] = store<T>(load(bias.as<T>()[at]) + load(store<T>(steps[static_cast<std::size_t>(e)])));
        }
      });
    }
  });
}

// The operands are a weight, the highest scores of its heads, and the step's numbers.
void clip_update(const KernelCall& call) {
  const auto& of = std::get<graph::ClipOf>(call.attributes);
  if (!UpdateNumbers(call).is_applied) return keep<1>(call, {0});
  const View &weight = call.operands[0], &highest = call.operands[1];
  const std::int64_t width = weight.shape.back(), rows = width == 0 ? 0 : weight.count() / width;
  ScratchList<std::int64_t> strides(weight.shape.size(), 0);  // of the scores, by the weight's dims
  std::int64_t stride = 1;
  for (std::size_t dim = of.dims.size(); dim-- > 0; stride *= highest.size(dim)) strides[static_cast<std::size_t>(of.dims[dim])] = stride;
  const auto score_of = [&](std::int64_t row) {  // of the head that the row belongs to
    std::int64_t place = 0;
    for (std::size_t dim = weight.shape.size() - 1; dim-- > 0; row /= weight.shape[dim]) place += row % weight.shape[dim] * strides[dim];
    return highest.as<float>()[place];
  };
  const Isa isa = chosen_isa();
  for_floating(weight.dtype, [&]<typename T>() {
    using W = Wide<T>;
    call.workers.parallel(rows, 1 + kGrain / (width + 1), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const double score = static_cast<double>(score_of(row)) + kClipEpsilon;
        const double factor = score > of.threshold ? of.threshold / score : 1;
        const W of_both = static_cast<W>(std::sqrt(factor)), of_rest = of.scales_rest ? static_cast<W>(factor) : W(1);
        const T* from = weight.as<T>() + row * width;
        T* to = call.results[0].as<T>() + row * width;
        vectorised(isa, [&]() MOESH_LOOP {
          for (std::int64_t i = 0; i < width; ++i) to[i] = store<T>(load(from[i]) * (i < of.halved ? of_both : of_rest));
        });
      }
    });
  });
}

}  // namespace moesh::backend::cpu
