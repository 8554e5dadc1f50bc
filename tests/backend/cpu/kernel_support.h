// Support for tests of kernels: tensors of any type, calls of ops on them, and gradients by finite differences.
#pragma once

#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "backend/cpu/isa.h"
#include "backend/cpu/kernels.h"
#include "backend/element.h"
#include "backend/kernel.h"
#include "backend/reference/kernels.h"
#include "tests/backend/cpu/tile_emulator.h"
#include "transport/rows.h"

namespace moesh::backend::test {

using graph::Op;

struct Tensor {
  DType dtype = DType::float32;
  Shape shape;
  std::vector<std::byte> bytes;

  Tensor(DType of, Shape sizes) : dtype(of), shape(std::move(sizes)), bytes(static_cast<std::size_t>(count() * size_of(dtype))) {}

  std::int64_t count() const { return elements(shape); }
  View view() const { return {const_cast<std::byte*>(bytes.data()), dtype, shape}; }
  double at(std::int64_t i) const {
    double value = 0;
    if (dtype == DType::int32) return view().as<std::int32_t>()[i];
    if (dtype == DType::boolean) return view().as<bool>()[i];
    for_floating(dtype, [&]<typename T>() { value = static_cast<double>(load(view().as<T>()[i])); });
    return value;
  }
  void set(std::int64_t i, double value) {
    if (dtype == DType::int32) {
      view().as<std::int32_t>()[i] = static_cast<std::int32_t>(value);
    } else if (dtype == DType::boolean) {
      view().as<bool>()[i] = value != 0;
    } else {
      for_floating(dtype, [&]<typename T>() { view().as<T>()[i] = store<T>(value); });
    }
  }
};
using Tensors = std::vector<Tensor>;

inline Tensor values(DType dtype, Shape shape, const std::vector<double>& all) {
  Tensor made(dtype, std::move(shape));
  EXPECT_EQ(made.count(), static_cast<std::int64_t>(all.size()));
  for (std::int64_t i = 0; i < made.count(); ++i) made.set(i, all[static_cast<std::size_t>(i)]);
  return made;
}

inline Tensor integers(Shape shape, const std::vector<double>& all) { return values(DType::int32, std::move(shape), all); }

// Uniform in [low, high).
inline Tensor noise(DType dtype, Shape shape, unsigned seed, double low = -1, double high = 1) {
  Tensor made(dtype, std::move(shape));
  std::mt19937 random(seed);
  for (std::int64_t i = 0; i < made.count(); ++i) made.set(i, low + (high - low) * static_cast<double>(random()) / 4294967296.0);
  return made;
}

// Integers in [0, limit).
inline Tensor draws(Shape shape, unsigned seed, std::uint32_t limit) {
  Tensor made(DType::int32, std::move(shape));
  std::mt19937 random(seed);
  for (std::int64_t i = 0; i < made.count(); ++i) made.set(i, static_cast<double>(random() % limit));
  return made;
}

inline Tensor filled(DType dtype, Shape shape, double value) {
  Tensor made(dtype, std::move(shape));
  for (std::int64_t i = 0; i < made.count(); ++i) made.set(i, value);
  return made;
}

inline Tensor converted(const Tensor& from, DType dtype) {
  Tensor made(dtype, from.shape);
  for (std::int64_t i = 0; i < made.count(); ++i) made.set(i, from.at(i));
  return made;
}

struct Call {
  Op op;
  graph::Attributes attributes;
  Tensors operands;  // for collectives: for each operand, those of all devices, one after another
  Tensors results;   // types and shapes of the results
  std::int64_t member = 0;
  std::int64_t members = 1;
  std::vector<Shape> origins = {};  // where the shard of each operand and result begins; empty if all are whole
};

// Results start out as garbage, so a kernel must write every element.
template <typename RunKernel>
Tensors run_kernel(const RunKernel& kernel, const Call& call, int threads = 2) {
  Tensors results = call.results;
  std::vector<View> operands, made;
  for (const Tensor& operand : call.operands) operands.push_back(operand.view());
  for (Tensor& result : results) {
    std::fill(result.bytes.begin(), result.bytes.end(), std::byte{0x7E});
    made.push_back(result.view());
  }
  Workers workers(threads);
  kernel({call.attributes, operands, made, workers, call.origins, call.member, call.members});
  return results;
}

// Runs the fast kernel, or the transport's function if the op is a collective.
inline Tensors run(const Call& call, int threads = 2) {
  const transport::RowCollective collective = transport::find_row_collective(call.op);
  if (collective == nullptr) return run_kernel(cpu::find_kernel(call.op), call, threads);
  const std::vector<char> is_packed(static_cast<std::size_t>(call.members), 0);
  return run_kernel([&](const KernelCall& of) { collective(of, is_packed); }, call, threads);
}
inline Tensors run_plain(const Call& call) { return run_kernel(reference::find_kernel(call.op), call, 1); }

// Largest difference, relative to the largest expected value.
inline double distance(const Tensor& actual, const Tensor& expected) {
  EXPECT_EQ(actual.shape, expected.shape);
  double largest = 0, difference = 0;
  for (std::int64_t i = 0; i < expected.count(); ++i) {
    largest = std::max(largest, std::abs(expected.at(i)));
    const double d = std::abs(actual.at(i) - expected.at(i));
    difference = d > difference || d != d ? d : difference;
  }
  return difference / (largest > 0 ? largest : 1);
}

inline void expect_near(const Tensor& actual, const Tensor& expected, double tolerance, const std::string& what = "") {
  EXPECT_LE(distance(actual, expected), tolerance) << what;
}

// float64 results differ only by the order of summation. So do float32 results, for sums of some hundred terms. bfloat16 has 8 bits of
// precision.
inline double tolerance_of(DType dtype) {
  return dtype == DType::float64 ? 1e-12 : dtype == DType::float32 ? 1e-5 : 0.01;
}

inline const std::vector<DType>& floating_types() {
  static const std::vector<DType> all{DType::float32, DType::bfloat16, DType::float64};
  return all;
}

// Sets MOESH_ISA during its lifetime.
class With {
 public:
  explicit With(cpu::Isa isa) { ::setenv("MOESH_ISA", std::string(cpu::name_of(isa)).c_str(), 1); }
  ~With() { ::unsetenv("MOESH_ISA"); }
  With(const With&) = delete;
  With& operator=(const With&) = delete;
};

// All instruction sets that can run here, including AMX if it can be emulated.
inline std::vector<cpu::Isa> isas_here() {
  emulate_tiles();
  std::vector<cpu::Isa> all;
  std::copy_if(cpu::kIsas.begin(), cpu::kIsas.end(), std::back_inserter(all), cpu::can_run);
  return all;
}

// Whether the kernel computes matrix products: each instruction set accumulates them in another order.
inline bool has_products(Op op) {
  return op == Op::einsum || op == Op::attention || op == Op::attention_grad || op == Op::grouped_matmul || op == Op::grouped_outer ||
         op == Op::vocab_loss || op == Op::vocab_logs || op == Op::vocab_loss_grad || op == Op::index_scores ||
         op == Op::index_scores_grad || op == Op::attention_shares || op == Op::delta_rule || op == Op::delta_rule_grad;
}

// Whether the op computes a silu: on AVX-512, its exponential has code of its own.
inline bool has_silu(const graph::Attributes& attributes) {
  if (const auto* of = std::get_if<graph::UnaryOf>(&attributes)) return of->function == graph::Unary::silu;
  const auto* chain = std::get_if<graph::ChainOf>(&attributes);
  const auto is_silu = [](const graph::ChainStep& step) {
    using Kind = graph::ChainStep::Kind;
    return (step.kind == Kind::unary || step.kind == Kind::unary_grad) && step.unary.function == graph::Unary::silu;
  };
  return chain != nullptr && std::any_of(chain->steps.begin(), chain->steps.end(), is_silu);
}

// Compares the fast kernel with the plain one on all instruction sets that can run. Its bits must not depend on the number of threads, nor
// on the instruction set unless it computes products or a silu. The tolerance is that of the type, or `tolerance` if this is larger;
// integers must be equal.
inline void hold_to_plain(const Call& call, double tolerance = 0) {
  const Tensors expected = run_plain(call);
  Tensors first;
  const bool low = !call.operands.empty() && call.operands[0].dtype == DType::bfloat16;
  for (const cpu::Isa isa : isas_here()) {
    const With with(isa);
    const Tensors made = run(call, 1);
    if (first.empty()) first = made;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (!has_products(call.op) && !has_silu(call.attributes)) {
        EXPECT_TRUE(made[i].bytes == first[i].bytes) << name_of(call.op) << " has other bits on " << cpu::name_of(isa);
      }
      const double own = tolerance_of(low ? DType::bfloat16 : expected[i].dtype);
      const double allowed = is_floating(expected[i].dtype) ? std::max(own, tolerance) : 0;
      expect_near(made[i], expected[i], allowed,
                  fmt::format("{} {} result {} on {}", name_of(call.op), name_of(expected[i].dtype), i, cpu::name_of(isa)));
    }
    for (const int threads : {2, 3}) {
      const Tensors again = run(call, threads);
      for (std::size_t i = 0; i < made.size(); ++i) EXPECT_EQ(again[i].bytes, made[i].bytes) << threads << " threads";
    }
  }
}

// The gradient of the sum of results times cotangents with respect to an operand, by central differences in float64.
inline Tensor slope(const Call& call, std::size_t operand, const Tensors& cotangents) {
  constexpr double kStep = 1e-4;  // leaves errors of 1e-8 from the third derivative and of 1e-12 from rounding
  const auto loss = [&](const Call& at) {
    const Tensors made = run(at, 1);
    double sum = 0;
    for (std::size_t r = 0; r < cotangents.size(); ++r) {
      for (std::int64_t i = 0; i < cotangents[r].count(); ++i) sum += made[r].at(i) * cotangents[r].at(i);
    }
    return sum;
  };
  Call moved = call;
  Tensor made(DType::float64, call.operands[operand].shape);
  for (std::int64_t i = 0; i < made.count(); ++i) {
    const double x = call.operands[operand].at(i);
    moved.operands[operand].set(i, x + kStep);
    const double above = loss(moved);
    moved.operands[operand].set(i, x - kStep);
    made.set(i, (above - loss(moved)) / (2 * kStep));
    moved.operands[operand].set(i, x);
  }
  return made;
}

// Runs the gradient op on `inputs` and compares its results with the slopes of the operands `of`, one result per operand.
inline void hold_to_differences(const Call& call, const Tensors& cotangents, Op gradient, Tensors inputs,
                                const std::vector<std::size_t>& of) {
  Call back{gradient, call.attributes, std::move(inputs), {}};
  for (const std::size_t operand : of) back.results.emplace_back(DType::float64, call.operands[operand].shape);
  const Tensors made = run(back);
  for (std::size_t i = 0; i < of.size(); ++i) {
    expect_near(made[i], slope(call, of[i], cotangents), 1e-6, fmt::format("{} result {}", name_of(gradient), i));
  }
}

// Calls of these shapes leave numbers in the scratch memory of threads. Later calls must not read them: the call has the same bits after a
// call on zeros as after a call on NaN.
inline void expect_not_to_see_what_memory_holds(const Call& call) {
  const auto with_all = [&](double value) {
    Call made = call;
    for (Tensor& operand : made.operands) {
      if (is_floating(operand.dtype)) operand = filled(operand.dtype, operand.shape, value);
    }
    return made;
  };
  for (const cpu::Isa isa : isas_here()) {
    const With with(isa);
    run(with_all(0), 1);
    const Tensors after_zeros = run(call, 1);
    run(with_all(std::numeric_limits<double>::quiet_NaN()), 1);
    const Tensors after_none = run(call, 1);
    for (std::size_t i = 0; i < after_zeros.size(); ++i) {
      EXPECT_TRUE(after_none[i].bytes == after_zeros[i].bytes) << name_of(call.op) << " result " << i << " on " << cpu::name_of(isa);
    }
  }
}

}  // namespace moesh::backend::test
