// Elementwise ops.
#include <algorithm>
#include <cassert>
#include <cstdint>

#include "backend/chain.h"
#include "backend/cpu/cache_line.h"
#include "backend/cpu/elementwise_avx512.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/pack.h"
#include "backend/cpu/row_loop.h"
#include "backend/cpu/simd.h"

namespace moesh::backend::cpu {
namespace {

using graph::Binary;
using graph::Unary;
using graph::UnaryOf;

template <typename T, typename Function>
void map(const KernelCall& call, const Function& function) {
  const Isa isa = chosen_isa();
  const T* x = call.operands[0].as<T>();
  T* y = call.results[0].as<T>();
  call.workers.parallel(call.results[0].count(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    vectorised(isa, [&]() MOESH_LOOP {
      MOESH_BY_ELEMENT
      for (std::int64_t i = begin; i < end; ++i) y[i] = store<T>(function(load(x[i])));
    });
  });
}

template <typename T, typename Function>
void map2(const KernelCall& call, const Function& function) {
  const Isa isa = chosen_isa();
  const T* a = call.operands[0].as<T>();
  const T* b = call.operands[1].as<T>();
  T* y = call.results[0].as<T>();
  call.workers.parallel(call.results[0].count(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    vectorised(isa, [&]() MOESH_LOOP {
      MOESH_BY_ELEMENT
      for (std::int64_t i = begin; i < end; ++i) y[i] = store<T>(function(load(a[i]), load(b[i])));
    });
  });
}

#if defined(__x86_64__)
// Calls body<T>() if there are AVX-512 kernels for results of this type; returns whether there are.
template <typename Body>
bool with_avx512(const KernelCall& call, const Body& body) {
  const Isa isa = chosen_isa();
  const DType dtype = call.results[0].dtype;
  if (dtype == DType::float32 && isa >= Isa::avx512) body.template operator()<float>();
  else if (dtype == DType::bfloat16 && packs_bfloat16(isa)) body.template operator()<bfloat16>();
  else return false;
  return true;
}

// Calls body(first element, elements) for each thread's share.
template <typename Body>
void for_shares(const KernelCall& call, const Body& body) {
  call.workers.parallel(call.results[0].count(), kGrain, [&](std::int64_t begin, std::int64_t end) { body(begin, end - begin); });
}

bool runs_unary(const KernelCall& call) {
  const auto& of = std::get<UnaryOf>(call.attributes);
  return has_avx512(of.function) && with_avx512(call, [&]<typename T>() {
    for_shares(call, [&](std::int64_t first, std::int64_t count) {
      unary_avx512(of, call.operands[0].as<const T>() + first, count, call.results[0].as<T>() + first);
    });
  });
}
bool runs_unary_grad(const KernelCall& call) {
  const auto& of = std::get<UnaryOf>(call.attributes);
  return has_avx512(of.function) && with_avx512(call, [&]<typename T>() {
    for_shares(call, [&](std::int64_t first, std::int64_t count) {
      const T *const x = call.operands[0].as<const T>() + first, *const dy = call.operands[1].as<const T>() + first;
      unary_grad_avx512(of, x, dy, count, call.results[0].as<T>() + first);
    });
  });
}
bool runs_binary(const KernelCall& call) {
  const Binary function = std::get<graph::BinaryOf>(call.attributes).function;
  return with_avx512(call, [&]<typename T>() {
    for_shares(call, [&](std::int64_t first, std::int64_t count) {
      const T *const a = call.operands[0].as<const T>() + first, *const b = call.operands[1].as<const T>() + first;
      binary_avx512(function, a, b, count, call.results[0].as<T>() + first);
    });
  });
}
// Whether a result is written with non-temporal stores. Threads' shares of it begin on cache lines if it does.
bool is_streamed(const View& result) {
  const bool is_large = result.count() * size_of(result.dtype) >= kStreamingBytes;
  return is_large && reinterpret_cast<std::uintptr_t>(result.data) % kCacheLineBytes == 0;
}
bool runs_cast(const KernelCall& call) {
  if (call.results[0].dtype != DType::bfloat16 || call.operands[0].dtype != DType::float32 || !packs_bfloat16(chosen_isa())) return false;
  const View& result = call.results[0];
  const bool streams = is_streamed(result);
  for_shares(call, [&](std::int64_t first, std::int64_t count) {
    (streams ? round_streaming_avx512 : round_avx512)(call.operands[0].as<const float>() + first, count, result.as<bfloat16>() + first);
  });
  return true;
}

bool runs_chain(const KernelCall& call) {
  const auto& chain = std::get<graph::ChainOf>(call.attributes);
  if (call.operands.size() + chain.steps.size() > static_cast<std::size_t>(kMostChainValues)) return false;
  bool is_narrow = false, is_other = false;
  const auto see = [&](DType dtype) {
    is_narrow = is_narrow || dtype == DType::bfloat16;
    is_other = is_other || (dtype != DType::bfloat16 && dtype != DType::float32);
  };
  for (const View& operand : call.operands) see(operand.dtype);
  for (const graph::ChainStep& step : chain.steps) {
    using Kind = graph::ChainStep::Kind;
    see(step.dtype);
    if ((step.kind == Kind::unary || step.kind == Kind::unary_grad) && !has_avx512(step.unary.function)) return false;
  }
  const Isa isa = chosen_isa();
  if (is_other || (is_narrow ? !packs_bfloat16(isa) : isa < Isa::avx512)) return false;
  // The lines of an operand are in cache once it has been read.
  const auto is_in_place = [&](const View& result) {
    return std::any_of(call.operands.begin(), call.operands.end(), [&](const View& operand) { return operand.data == result.data; });
  };
  const bool streams = std::all_of(call.results.begin(), call.results.end(), is_streamed) &&
                       std::none_of(call.results.begin(), call.results.end(), is_in_place);
  for_shares(call, [&](std::int64_t first, std::int64_t count) {
    (is_narrow ? chain_avx512_bf16 : chain_avx512)(call, first, first + count, streams);
    if (streams) fence_streaming_stores();
  });
  return true;
}
#else
bool runs_chain(const KernelCall&) { return false; }
bool runs_unary(const KernelCall&) { return false; }
bool runs_unary_grad(const KernelCall&) { return false; }
bool runs_binary(const KernelCall&) { return false; }
bool runs_cast(const KernelCall&) { return false; }
#endif

template <typename W>
[[gnu::always_inline]] inline W gelu_sigmoid(W x) {
  return sigmoid_of(W(kGeluInner) * (x + W(kGeluCubic) * x * x * x));
}

template <typename W>
[[gnu::always_inline]] inline W gelu_slope(W x) {
  const W s = gelu_sigmoid(x);
  return s + x * s * (1 - s) * W(kGeluInner) * (1 + 3 * W(kGeluCubic) * x * x);
}

template <typename T>
void unary_of(const KernelCall& call) {
  using W = Wide<T>;
  const UnaryOf& of = std::get<UnaryOf>(call.attributes);
  const W a = static_cast<W>(of.a);
  const W b = static_cast<W>(of.b);
  switch (of.function) {
    case Unary::silu: return map<T>(call, [](W x) MOESH_LOOP { return x * sigmoid_of(x); });
    case Unary::sigmoid: return map<T>(call, [](W x) MOESH_LOOP { return sigmoid_of(x); });
    case Unary::gelu: return map<T>(call, [](W x) MOESH_LOOP { return x * gelu_sigmoid(x); });
    case Unary::relu: return map<T>(call, [](W x) MOESH_LOOP { return x < 0 ? W(0) : x; });
    case Unary::tanh: return map<T>(call, [](W x) MOESH_LOOP { return tanh_and_slope_of(x).tanh; });
    case Unary::exp: return map<T>(call, [](W x) MOESH_LOOP { return exp_of(x); });
    case Unary::softplus: return map<T>(call, [](W x) MOESH_LOOP { return (x < 0 ? W(0) : x) + log_of_one_more(exp_of(x < 0 ? x : -x)); });
    case Unary::identity: return map<T>(call, [](W x) MOESH_LOOP { return x; });
    case Unary::scale: return map<T>(call, [a](W x) MOESH_LOOP { return x * a; });
    case Unary::offset: return map<T>(call, [a](W x) MOESH_LOOP { return x + a; });
    case Unary::clamp: return map<T>(call, [a, b](W x) MOESH_LOOP { return x < a ? a : (x > b ? b : x); });
    case Unary::sqrt: return map<T>(call, [](W x) MOESH_LOOP { return std::sqrt(x); });
    case Unary::rsqrt: return map<T>(call, [](W x) MOESH_LOOP { return W(1) / std::sqrt(x); });
    case Unary::minimum: return map<T>(call, [a](W x) MOESH_LOOP { return x > a ? a : x; });
    // x - x is NaN unless x is finite.
    case Unary::finite: return map<T>(call, [](W x) MOESH_LOOP { return x - x == 0 ? W(1) : W(0); });
  }
}

template <typename T>
void unary_grad_of(const KernelCall& call) {
  using W = Wide<T>;
  const UnaryOf& of = std::get<UnaryOf>(call.attributes);
  const W a = static_cast<W>(of.a);
  const W b = static_cast<W>(of.b);
  switch (of.function) {
    case Unary::silu:
      return map2<T>(call, [](W x, W dy) MOESH_LOOP {
        const W s = sigmoid_of(x);
        return dy * s * (1 + x * (1 - s));
      });
    case Unary::sigmoid:
      return map2<T>(call, [](W x, W dy) MOESH_LOOP {
        const W s = sigmoid_of(x);
        return dy * s * (1 - s);
      });
    case Unary::gelu: return map2<T>(call, [](W x, W dy) MOESH_LOOP { return dy * gelu_slope(x); });
    case Unary::relu: return map2<T>(call, [](W x, W dy) MOESH_LOOP { return x > 0 ? dy : W(0); });
    case Unary::tanh: return map2<T>(call, [](W x, W dy) MOESH_LOOP { return dy * tanh_and_slope_of(x).slope; });
    case Unary::exp: return map2<T>(call, [](W x, W dy) MOESH_LOOP { return dy * exp_of(x); });
    case Unary::softplus: return map2<T>(call, [](W x, W dy) MOESH_LOOP { return dy * sigmoid_of(x); });
    case Unary::identity:
    case Unary::offset: return map2<T>(call, [](W, W dy) MOESH_LOOP { return dy; });
    case Unary::scale: return map2<T>(call, [a](W, W dy) MOESH_LOOP { return dy * a; });
    case Unary::clamp: return map2<T>(call, [a, b](W x, W dy) MOESH_LOOP { return x < a || x > b ? W(0) : dy; });
    case Unary::sqrt: return map2<T>(call, [](W x, W dy) MOESH_LOOP { return dy * W(0.5) / std::sqrt(x); });
    case Unary::rsqrt:
      return map2<T>(call, [](W x, W dy) MOESH_LOOP {
        const W y = W(1) / std::sqrt(x);
        return dy * W(-0.5) * y * y * y;
      });
    case Unary::minimum: return map2<T>(call, [a](W x, W dy) MOESH_LOOP { return x < a ? dy : W(0); });
    case Unary::finite: return map2<T>(call, [](W, W) MOESH_LOOP { return W(0); });
  }
}

template <typename T>
void binary_of(const KernelCall& call) {
  using W = Wide<T>;
  switch (std::get<graph::BinaryOf>(call.attributes).function) {
    case Binary::add: return map2<T>(call, [](W x, W y) MOESH_LOOP { return x + y; });
    case Binary::subtract: return map2<T>(call, [](W x, W y) MOESH_LOOP { return x - y; });
    case Binary::multiply: return map2<T>(call, [](W x, W y) MOESH_LOOP { return x * y; });
    case Binary::divide: return map2<T>(call, [](W x, W y) MOESH_LOOP { return x / y; });
  }
}

template <typename To, typename From>
void cast_elements(const KernelCall& call) {
  const Isa isa = chosen_isa();
  const From* __restrict x = call.operands[0].as<From>();
  To* __restrict y = call.results[0].as<To>();
  call.workers.parallel(call.results[0].count(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    vectorised(isa, [&]() MOESH_LOOP {
      for (std::int64_t i = begin; i < end; ++i) {
        if constexpr (std::is_same_v<From, std::int32_t> || std::is_same_v<From, double>) y[i] = store<To>(static_cast<double>(x[i]));
        else y[i] = store<To>(load(x[i]));
      }
    });
  });
}

template <typename T>
void fill_with(const KernelCall& call, T value) {
  T* y = call.results[0].as<T>();
  call.workers.parallel(call.results[0].count(), kGrain,
                        [&](std::int64_t begin, std::int64_t end) { std::fill(y + begin, y + end, value); });
}

}  // namespace

void unary(const KernelCall& call) {
  if (runs_unary(call)) return;
  for_floating(call.results[0].dtype, [&]<typename T>() { unary_of<T>(call); });
}

void unary_grad(const KernelCall& call) {
  if (runs_unary_grad(call)) return;
  for_floating(call.results[0].dtype, [&]<typename T>() { unary_grad_of<T>(call); });
}

void binary(const KernelCall& call) {
  if (runs_binary(call)) return;
  for_floating(call.results[0].dtype, [&]<typename T>() { binary_of<T>(call); });
}

void cast(const KernelCall& call) {
  if (runs_cast(call)) return;
  const DType from = call.operands[0].dtype;
  for_floating(call.results[0].dtype, [&]<typename To>() {
    if (from == DType::int32) return cast_elements<To, std::int32_t>(call);
    for_floating(from, [&]<typename From>() { cast_elements<To, From>(call); });
  });
}

void chain(const KernelCall& call) {
  if (!runs_chain(call)) run_chain(call, find_kernel);
}

void fill(const KernelCall& call) {
  const double value = std::get<graph::FillOf>(call.attributes).value;
  const DType dtype = call.results[0].dtype;
  if (dtype == DType::int32) return fill_with(call, static_cast<std::int32_t>(value));
  for_floating(dtype, [&]<typename T>() { fill_with(call, store<T>(value)); });
}

}  // namespace moesh::backend::cpu
