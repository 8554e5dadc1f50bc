// Squared norms, and updates of parameters.
#include <cmath>
#include <vector>

#include "backend/element.h"
#include "backend/reference/kernels.h"
#include "backend/scalar.h"
#include "backend/update_numbers.h"

namespace moesh::backend::reference {
namespace {

void sum_squares_of(const View& values, const View& result) {
  for_floating(values.dtype, [&]<typename T>() {
    double sum = 0;
    for (std::int64_t i = 0; i < values.count(); ++i) {
      const double x = static_cast<double>(load(values.as<T>()[i]));
      sum += x * x;
    }
    result.as<float>()[0] = static_cast<float>(sum);
  });
}

void sum_squares(const KernelCall& call) { sum_squares_of(call.operands[0], call.results[0]); }

// The decay rates, bias corrections and mixing weights of a step.
struct Adam {
  double decay1, decay2, rest1, rest2, correct1, correct2, mix_mu, mix_g;

  Adam(const graph::AdamOf& of, float step) {
    const auto corrected = [](double beta, float steps) { return static_cast<double>(bias_correction(beta, steps)); };
    decay1 = of.mu_decay;
    decay2 = of.nu_decay;
    rest1 = 1 - of.beta1;
    rest2 = 1 - of.beta2;
    correct1 = corrected(of.beta1, step);
    correct2 = corrected(of.beta2, step);
    if (of.pax) {
      decay1 = static_cast<double>(pax_decay(of.beta1, step));
      decay2 = static_cast<double>(pax_decay(of.beta2, step));
      rest1 = 1 - decay1;
      rest2 = 1 - decay2;
      correct1 = correct2 = 1;
    }
    mix_mu = of.nesterov ? of.beta1 / corrected(of.beta1, step + 1) : 1 / correct1;
    mix_g = of.nesterov ? (1 - of.beta1) / correct1 : 0;
  }
};

void adam_update(const KernelCall& call) {
  const auto& of = std::get<graph::AdamOf>(call.attributes);
  const UpdateNumbers numbers(call);
  const View& parameter = call.operands[0];
  const auto rate = static_cast<double>(numbers.rate), factor = static_cast<double>(numbers.factor);
  const Adam adam(of, numbers.step);
  if (!numbers.is_applied) keep<3>(call, {0, 2, 3});
  for_floating(parameter.dtype, [&]<typename P>() {
    for_floating(call.operands[2].dtype, [&]<typename M>() {
      for_floating(call.operands[3].dtype, [&]<typename N>() {
        call.workers.parallel(numbers.is_applied ? parameter.count() : 0, 1 << 14, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            const double g = factor * load_at(call.operands[1], i);
            const double p = static_cast<double>(load(parameter.as<P>()[i]));
            const double mu = adam.decay1 * static_cast<double>(load(call.operands[2].as<M>()[i])) + adam.rest1 * g;
            const double nu = adam.decay2 * static_cast<double>(load(call.operands[3].as<N>()[i])) + adam.rest2 * g * g;
            const double direction = (adam.mix_mu * mu + adam.mix_g * g) /
                                     (std::sqrt(nu / adam.correct2 + of.epsilon_root) + of.epsilon);
            call.results[0].as<P>()[i] = store<P>(p - rate * (direction + of.weight_decay * p));
            call.results[1].as<M>()[i] = store<M>(mu);
            call.results[2].as<N>()[i] = store<N>(nu);
          }
        });
      });
    });
  });
  if (call.results.size() > 3) sum_squares_of(call.results[0], call.results[3]);
}

void sgd_update(const KernelCall& call) {
  const double decay = std::get<graph::SgdOf>(call.attributes).weight_decay;
  const UpdateNumbers numbers(call);
  if (!numbers.is_applied) return keep<1>(call, {0});
  const auto rate = static_cast<double>(numbers.rate), factor = static_cast<double>(numbers.factor);
  for_floating(call.operands[0].dtype, [&]<typename P>() {
    for (std::int64_t i = 0; i < call.operands[0].count(); ++i) {
      const double p = static_cast<double>(load(call.operands[0].as<P>()[i]));
      const double direction = factor * load_at(call.operands[1], i);
      call.results[0].as<P>()[i] = store<P>(p - rate * (direction + decay * p));
    }
  });
}

void momentum_update(const KernelCall& call) {
  const auto& of = std::get<graph::MomentumOf>(call.attributes);
  const UpdateNumbers numbers(call);
  const auto corrected = [&](float step) { return static_cast<double>(bias_correction(of.beta, step)); };
  const double mix_mu = of.beta / corrected(numbers.step + 1);
  const double mix_g = (1 - of.beta) / corrected(numbers.step);
  const auto factor = static_cast<double>(numbers.factor);
  for_floating(call.operands[1].dtype, [&]<typename M>() {
    for (std::int64_t i = 0; i < call.operands[0].count(); ++i) {
      const double g = factor * load_at(call.operands[0], i);
      const M old_mu = call.operands[1].as<M>()[i];
      const double mu = of.decay * static_cast<double>(load(old_mu)) + (1 - of.beta) * g;
      call.results[0].as<M>()[i] = numbers.is_applied ? store<M>(mu) : old_mu;
      call.results[1].as<float>()[i] = static_cast<float>(mix_mu * mu + mix_g * g);
    }
  });
}

// By how much an expert's bias moves: for each microbatch the rate, up or down towards the mean load of the expert's layer.
float balance_step(const View& load, std::int64_t layer, std::int64_t expert, float rate) {
  const std::int64_t width = load.size(2);  // the last number counts dropped choices
  float step = 0;
  for (std::int64_t microbatch = 0; microbatch < load.size(0); ++microbatch) {
    const float* tokens = load.as<float>() + (microbatch * load.size(1) + layer) * width;
    float sum = 0;
    for (std::int64_t e = 0; e + 1 < width; ++e) sum += tokens[e];
    const float mean = sum / static_cast<float>(width - 1);
    step += tokens[expert] < mean ? rate : tokens[expert] > mean ? -rate : 0;
  }
  return step;
}

// The step is rounded to the bias's type before it is added.
void balance_update(const KernelCall& call) {
  const auto& of = std::get<graph::BalanceOf>(call.attributes);
  const View& bias = call.operands[0];
  if (!UpdateNumbers(call).is_applied) return keep<1>(call, {0});
  const std::int64_t experts = bias.size(static_cast<std::size_t>(of.experts_dim));
  std::int64_t inner = 1;  // layers whose dims come after the experts' dim
  for (std::size_t dim = static_cast<std::size_t>(of.experts_dim) + 1; dim < bias.shape.size(); ++dim) inner *= bias.size(dim);
  for_floating(bias.dtype, [&]<typename T>() {
    for (std::int64_t i = 0; i < bias.count(); ++i) {
      const std::int64_t layer = i / (experts * inner) * inner + i % inner;
      const float step = balance_step(call.operands[1], layer, i / inner % experts, static_cast<float>(of.rate));
      call.results[0].as<T>()[i] = store<T>(load(bias.as<T>()[i]) + load(store<T>(step)));
    }
  });
}

void clip_update(const KernelCall& call) {
  const auto& of = std::get<graph::ClipOf>(call.attributes);
  if (!UpdateNumbers(call).is_applied) return keep<1>(call, {0});
  const View &weight = call.operands[0], &highest = call.operands[1];
  for_floating(weight.dtype, [&]<typename T>() {
    for (std::int64_t i = 0; i < weight.count(); ++i) {
      std::int64_t rest = i, place = 0, stride = 1;
      std::vector<std::int64_t> at(weight.shape.size());
      for (std::size_t dim = at.size(); dim-- > 0; rest /= weight.shape[dim]) at[dim] = rest % weight.shape[dim];
      for (std::size_t dim = of.dims.size(); dim-- > 0; stride *= highest.size(dim)) {
        place += stride * at[static_cast<std::size_t>(of.dims[dim])];
      }
      const double score = static_cast<double>(highest.as<float>()[place]) + kClipEpsilon;
      const double factor = score > of.threshold ? of.threshold / score : 1;
      const double mine = at.back() < of.halved ? std::sqrt(factor) : of.scales_rest ? factor : 1;
      call.results[0].as<T>()[i] = store<T>(static_cast<double>(load(weight.as<T>()[i])) * mine);
    }
  });
}

}  // namespace

Kernel find_learning(graph::Op op) {
  switch (op) {
    case graph::Op::sum_squares: return sum_squares;
    case graph::Op::adam_update: return adam_update;
    case graph::Op::sgd_update: return sgd_update;
    case graph::Op::momentum_update: return momentum_update;
    case graph::Op::balance_update: return balance_update;
    case graph::Op::clip_update: return clip_update;
    default: return nullptr;
  }
}

}  // namespace moesh::backend::reference
