#include <cmath>

#include "backend/chain.h"
#include "backend/element.h"
#include "backend/reference/kernels.h"

namespace moesh::backend::reference {
namespace {

using graph::Binary;
using graph::Unary;

template <typename W>
W apply(const graph::UnaryOf& of, W x) {
  const auto a = static_cast<W>(of.a);
  const auto b = static_cast<W>(of.b);
  switch (of.function) {
    case Unary::silu: return x / (1 + std::exp(-x));
    case Unary::sigmoid: return 1 / (1 + std::exp(-x));
    case Unary::gelu: return x / 2 * (1 + std::tanh(W(0.7978845608028654) * (x + W(0.044715) * x * x * x)));
    case Unary::relu: return x < 0 ? 0 : x;
    case Unary::tanh: return std::tanh(x);
    case Unary::exp: return std::exp(x);
    case Unary::softplus: return (x > 0 ? x : 0) + std::log1p(std::exp(-std::abs(x)));
    case Unary::identity: return x;
    case Unary::scale: return x * a;
    case Unary::offset: return x + a;
    case Unary::clamp: return x < a ? a : x > b ? b : x;
    case Unary::sqrt: return std::sqrt(x);
    case Unary::rsqrt: return 1 / std::sqrt(x);
    case Unary::minimum: return x > a ? a : x;
    case Unary::finite: return std::isfinite(x) ? 1 : 0;
  }
  return x;
}

template <typename W>
W slope(const graph::UnaryOf& of, W x) {
  const auto a = static_cast<W>(of.a);
  const auto b = static_cast<W>(of.b);
  switch (of.function) {
    case Unary::silu: {
      const W s = 1 / (1 + std::exp(-x));
      return s * (1 + x * (1 - s));
    }
    case Unary::sigmoid: {
      const W s = 1 / (1 + std::exp(-x));
      return s * (1 - s);
    }
    case Unary::gelu: {
      const W c = W(0.7978845608028654);
      const W t = std::tanh(c * (x + W(0.044715) * x * x * x));
      return (1 + t) / 2 + x / 2 * (1 - t * t) * c * (1 + 3 * W(0.044715) * x * x);
    }
    case Unary::relu: return x > 0 ? 1 : 0;
    case Unary::tanh: {
      const W t = std::tanh(x);
      return 1 - t * t;
    }
    case Unary::exp: return std::exp(x);
    case Unary::softplus: return 1 / (1 + std::exp(-x));
    case Unary::identity:
    case Unary::offset: return 1;
    case Unary::scale: return a;
    case Unary::clamp: return x < a || x > b ? 0 : 1;
    case Unary::sqrt: return W(0.5) / std::sqrt(x);
    case Unary::rsqrt: return W(-0.5) / (x * std::sqrt(x));
    case Unary::minimum: return x < a ? 1 : 0;
    case Unary::finite: return 0;
  }
  return 0;
}

void unary(const KernelCall& call) {
  const auto& of = std::get<graph::UnaryOf>(call.attributes);
  for_floating(call.results[0].dtype, [&]<typename T>() {
    for (std::int64_t i = 0; i < call.results[0].count(); ++i) {
      call.results[0].as<T>()[i] = store<T>(apply(of, load(call.operands[0].as<T>()[i])));
    }
  });
}

void unary_grad(const KernelCall& call) {
  const auto& of = std::get<graph::UnaryOf>(call.attributes);
  for_floating(call.results[0].dtype, [&]<typename T>() {
    for (std::int64_t i = 0; i < call.results[0].count(); ++i) {
      call.results[0].as<T>()[i] =
          store<T>(slope(of, load(call.operands[0].as<T>()[i])) * load(call.operands[1].as<T>()[i]));
    }
  });
}

void binary(const KernelCall& call) {
  const Binary function = std::get<graph::BinaryOf>(call.attributes).function;
  for_floating(call.results[0].dtype, [&]<typename T>() {
    for (std::int64_t i = 0; i < call.results[0].count(); ++i) {
      const Wide<T> a = load(call.operands[0].as<T>()[i]);
      const Wide<T> b = load(call.operands[1].as<T>()[i]);
      Wide<T> made = 0;
      switch (function) {
        case Binary::add: made = a + b; break;
        case Binary::subtract: made = a - b; break;
        case Binary::multiply: made = a * b; break;
        case Binary::divide: made = a / b; break;
      }
      call.results[0].as<T>()[i] = store<T>(made);
    }
  });
}

void cast(const KernelCall& call) {
  const View& from = call.operands[0];
  for_floating(call.results[0].dtype, [&]<typename T>() {
    T* to = call.results[0].as<T>();
    if (from.dtype == DType::int32) {
      for (std::int64_t i = 0; i < from.count(); ++i) to[i] = store<T>(static_cast<Wide<T>>(from.as<std::int32_t>()[i]));
      return;
    }
    for_floating(from.dtype, [&]<typename F>() {
      for (std::int64_t i = 0; i < from.count(); ++i) to[i] = store<T>(static_cast<Wide<T>>(load(from.as<F>()[i])));
    });
  });
}

void fill(const KernelCall& call) {
  const double value = std::get<graph::FillOf>(call.attributes).value;
  for_floating(call.results[0].dtype, [&]<typename T>() {
    for (std::int64_t i = 0; i < call.results[0].count(); ++i) call.results[0].as<T>()[i] = store<T>(value);
  });
}

void chain(const KernelCall& call) { run_chain(call, find_elementwise); }

}  // namespace

Kernel find_elementwise(graph::Op op) {
  switch (op) {
    case graph::Op::unary: return unary;
    case graph::Op::unary_grad: return unary_grad;
    case graph::Op::binary: return binary;
    case graph::Op::cast: return cast;
    case graph::Op::chain: return chain;
    case graph::Op::fill: return fill;
    default: return nullptr;
  }
}

}  // namespace moesh::backend::reference
