// Norms and updates of parameters.
#include <cmath>

#include "run/cpu/element.h"
#include "run/plain/plain.h"

namespace moesh::run::plain {
namespace {

using cpu::for_floating;
using cpu::load;
using cpu::store;

void sum_squares(const KernelCall& call) {
  for_floating(call.operands[0].dtype, [&]<typename T>() {
    double sum = 0;
    for (std::int64_t i = 0; i < call.operands[0].count(); ++i) {
      const double x = static_cast<double>(load(call.operands[0].as<T>()[i]));
      sum += x * x;
    }
    call.results[0].as<float>()[0] = static_cast<float>(sum);
  });
}

// The decay rates and corrections of a step.
struct Adam {
  double decay1, decay2, rest1, rest2, correct1, correct2, mix_mu, mix_g;

  Adam(const graph::AdamOf& of, double step) {
    const auto corrected = [&](double beta, double t) { return 1 - std::pow(beta, t); };
    decay1 = of.mu_decay;
    decay2 = of.nu_decay;
    rest1 = 1 - of.beta1;
    rest2 = 1 - of.beta2;
    correct1 = corrected(of.beta1, step);
    correct2 = corrected(of.beta2, step);
    if (of.pax) {
      decay1 = of.beta1 * corrected(of.beta1, step - 1) / correct1;
      decay2 = of.beta2 * corrected(of.beta2, step - 1) / correct2;
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
  const double rate = static_cast<double>(call.operands[4].as<float>()[0]);
  const Adam adam(of, static_cast<double>(call.operands[4].as<float>()[1]));
  const View& parameter = call.operands[0];
  for_floating(parameter.dtype, [&]<typename P>() {
    for_floating(call.operands[2].dtype, [&]<typename M>() {
      for_floating(call.operands[3].dtype, [&]<typename N>() {
        call.workers.parallel(parameter.count(), 1 << 14, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            const double g = static_cast<double>(call.operands[1].as<float>()[i]);
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
}

void sgd_update(const KernelCall& call) {
  const double decay = std::get<graph::SgdOf>(call.attributes).weight_decay;
  const double rate = static_cast<double>(call.operands[2].as<float>()[0]);
  for_floating(call.operands[0].dtype, [&]<typename P>() {
    for (std::int64_t i = 0; i < call.operands[0].count(); ++i) {
      const double p = static_cast<double>(load(call.operands[0].as<P>()[i]));
      const double direction = static_cast<double>(call.operands[1].as<float>()[i]);
      call.results[0].as<P>()[i] = store<P>(p - rate * (direction + decay * p));
    }
  });
}

}  // namespace

Kernel find_learning(graph::Op op) {
  switch (op) {
    case graph::Op::sum_squares: return sum_squares;
    case graph::Op::adam_update: return adam_update;
    case graph::Op::sgd_update: return sgd_update;
    default: return nullptr;
  }
}

}  // namespace moesh::run::plain
