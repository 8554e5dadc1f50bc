#include <cmath>
#include <limits>

#include "tests/backend/cpu/kernel_support.h"

namespace moesh::backend::test {
namespace {

using graph::Binary;
using graph::Unary;

const std::vector<graph::UnaryOf>& functions() {
  static const std::vector<graph::UnaryOf> all{
      {Unary::silu},        {Unary::sigmoid},      {Unary::gelu},            {Unary::relu},         {Unary::tanh},         {Unary::scale, 1.7},
      {Unary::offset, -.3}, {Unary::clamp, -.5, 1}, {Unary::rsqrt},           {Unary::minimum, .25},
      {Unary::sqrt},       {Unary::exp},          {Unary::softplus},
  };
  return all;
}

// Square roots are taken of positive numbers.
double low_of(const graph::UnaryOf& of) { return of.function == Unary::rsqrt || of.function == Unary::sqrt ? 0.25 : -3; }

TEST(Elementwise, FunctionsAreThePlainOnes) {
  for (const graph::UnaryOf& of : functions()) {
    for (const DType dtype : floating_types()) {
      hold_to_plain({Op::unary, of, {noise(dtype, {3, 7001}, 1, low_of(of), 4)}, {Tensor(dtype, {3, 7001})}});
    }
  }
}

TEST(Elementwise, GradientsOfFunctionsAreThePlainOnes) {
  for (const graph::UnaryOf& of : functions()) {
    for (const DType dtype : floating_types()) {
      hold_to_plain({Op::unary_grad, of, {noise(dtype, {21001}, 1, low_of(of), 4), noise(dtype, {21001}, 2)}, {Tensor(dtype, {21001})}});
    }
  }
}

TEST(Elementwise, GradientsOfFunctionsAreTheirSlopes) {
  for (const graph::UnaryOf& of : functions()) {
    const Tensor x = noise(DType::float64, {50}, 3, low_of(of), 4);
    const Tensor dy = noise(DType::float64, {50}, 4);
    hold_to_differences({Op::unary, of, {x}, {x}}, {dy}, Op::unary_grad, {x, dy}, {0});
  }
}

// Expected values come from jax.nn.gelu, jax.nn.silu and jax.nn.sigmoid in float32.
TEST(Elementwise, FunctionsGiveTheNumbersOfJax) {
  const Tensor x = values(DType::float32, {4}, {-2, -0.5, 0.75, 3});
  const auto expect = [&](Unary function, const std::vector<double>& wanted) {
    expect_near(run({Op::unary, graph::UnaryOf{function}, {x}, {x}})[0], values(DType::float32, {4}, wanted), 1e-6);
  };
  expect(Unary::gelu, {-0.045402348, -0.154285997, 0.579960585, 2.996362686});
  expect(Unary::silu, {-0.238405839, -0.188770339, 0.509384036, 2.857722282});
  expect(Unary::sigmoid, {0.119202919, 0.377540678, 0.679178715, 0.952574134});
}

TEST(Elementwise, ClampPassesItsEndsAndTheirGradient) {
  const Tensor x = values(DType::float32, {4}, {-1, 2, -1.5, 2.5});
  const Tensor dy = filled(DType::float32, {4}, 3);
  const graph::UnaryOf of{Unary::clamp, -1, 2};
  EXPECT_EQ(run({Op::unary, of, {x}, {x}})[0].bytes, values(DType::float32, {4}, {-1, 2, -1, 2}).bytes);
  EXPECT_EQ(run({Op::unary_grad, of, {x, dy}, {x}})[0].bytes, values(DType::float32, {4}, {3, 3, 0, 0}).bytes);
}

graph::ChainStep step_of(graph::ChainStep::Kind kind, DType dtype, std::vector<int> operands, graph::UnaryOf unary, Binary binary) {
  return {kind, unary, {binary}, dtype, std::move(operands)};
}

// A gated branch of 2 operands, and backward of 3, which are compiled (see compiled_chains.h).
graph::ChainOf gate(DType dtype) {
  using Kind = graph::ChainStep::Kind;
  return {{step_of(Kind::unary, dtype, {0}, {Unary::silu}, {}), step_of(Kind::binary, dtype, {2, 1}, {}, Binary::multiply)}};
}
std::vector<graph::ChainOf> gate_grads(DType dtype) {
  using Kind = graph::ChainStep::Kind;
  const auto product = [&](int a, int b) { return step_of(Kind::binary, dtype, {a, b}, {}, Binary::multiply); };
  const auto grad = [&](int x, int dy) { return step_of(Kind::unary_grad, dtype, {x, dy}, {Unary::silu}, {}); };
  const graph::ChainStep of_gate = step_of(Kind::unary, dtype, {0}, {Unary::silu}, {});
  return {{{of_gate, product(1, 3), product(1, 2), grad(0, 5)}, {1, 3}},
          {{of_gate, product(3, 1), product(2, 3), product(2, 1), grad(0, 6)}, {1, 2, 4}}};
}

// Chains with every kind of step, in one type and with casts.
std::vector<graph::ChainOf> chains(DType dtype, const std::vector<graph::UnaryOf>& of_functions) {
  using Kind = graph::ChainStep::Kind;
  const auto step = [](Kind kind, DType of, std::vector<int> operands, Unary unary, Binary binary) {
    return step_of(kind, of, std::move(operands), {unary, 0.7, 2}, binary);
  };
  std::vector<graph::ChainOf> all;
  for (const graph::UnaryOf& of : of_functions) {
    const Unary unary = of.function;
    for (const Binary binary : {Binary::multiply, Binary::add, Binary::subtract}) {
      all.push_back({{step(Kind::unary, dtype, {0}, unary, binary), step(Kind::binary, dtype, {3, 1}, unary, binary)}});
      all.push_back({{step(Kind::binary, dtype, {0, 1}, unary, binary), step(Kind::unary_grad, dtype, {2, 3}, unary, binary),
                      step(Kind::binary, dtype, {4, 3}, unary, binary)}});
      all.push_back({{step(Kind::cast, DType::float32, {0}, unary, binary), step(Kind::cast, DType::float32, {1}, unary, binary),
                      step(Kind::binary, DType::float32, {3, 4}, unary, binary), step(Kind::cast, dtype, {5}, unary, binary),
                      step(Kind::binary, dtype, {6, 2}, unary, binary)}});
      all.push_back({{step(Kind::unary, dtype, {0}, unary, binary), step(Kind::binary, dtype, {3, 1}, unary, binary),
                      step(Kind::binary, dtype, {3, 2}, unary, binary), step(Kind::binary, dtype, {2, 1}, unary, binary),
                      step(Kind::unary_grad, dtype, {0, 6}, unary, binary)},
                     {4, 0, 2}});
    }
  }
  return all;
}

void hold_to_its_steps(const graph::ChainOf& chain, const Tensors& operands, cpu::Isa isa) {
  const Shape shape = operands[0].shape;
  Tensors values = operands;
  for (const graph::ChainStep& step : chain.steps) {
    Tensors taken;
    for (const int operand : step.operands) taken.push_back(values[static_cast<std::size_t>(operand)]);
    const bool is_unary = step.kind == graph::ChainStep::Kind::unary, is_cast = step.kind == graph::ChainStep::Kind::cast;
    const bool is_grad = step.kind == graph::ChainStep::Kind::unary_grad;
    const Op op = is_unary ? Op::unary : is_grad ? Op::unary_grad : is_cast ? Op::cast : Op::binary;
    graph::Attributes attributes;
    if (is_unary || is_grad) attributes = step.unary;
    if (op == Op::binary) attributes = step.binary;
    values.push_back(run({op, attributes, taken, {Tensor(step.dtype, shape)}})[0]);
  }
  const Tensors made = run({Op::chain, chain, operands, Tensors(chain.result_count(), Tensor(operands[0].dtype, shape))});
  for (std::size_t i = 0; i < made.size(); ++i) {
    EXPECT_EQ(made[i].bytes, values[operands.size() + chain.step_of(i)].bytes)
        << chain.steps.size() << " steps on " << shape[0] << ", result " << i << ", " << name_of(isa);
  }
}

TEST(Elementwise, AChainIsWhatItsStepsAreOneByOne) {
  for (const cpu::Isa isa : isas_here()) {
    const With with(isa);
    for (const DType dtype : floating_types()) {
      for (const std::int64_t count : {1, 15, 63, 64, 65, 513, 20001}) {
        const Tensors operands{noise(dtype, {count}, 1, -4, 4), noise(dtype, {count}, 2), noise(dtype, {count}, 3)};
        for (const graph::ChainOf& chain : chains(dtype, functions())) hold_to_its_steps(chain, operands, isa);
        hold_to_its_steps(gate(dtype), {operands[0], operands[1]}, isa);
        hold_to_its_steps(gate(dtype), operands, isa);  // the product is one of operands, as there are 3
        for (const graph::ChainOf& chain : gate_grads(dtype)) hold_to_its_steps(chain, operands, isa);
      }
    }
  }
}

// A chain with more operands and steps than any pass creates. All steps read the first two operands, so the result is their sum.
TEST(Elementwise, AChainMayBeLong) {
  for (const cpu::Isa isa : isas_here()) {
    const With with(isa);
    for (const DType dtype : floating_types()) {
      Tensors operands;
      for (unsigned i = 0; i < 12; ++i) operands.push_back(noise(dtype, {700}, i));
      graph::ChainStep sum;
      sum.kind = graph::ChainStep::Kind::binary;
      sum.binary = {Binary::add};
      sum.dtype = dtype;
      sum.operands = {0, 1};
      const Tensor wanted = run({Op::binary, graph::BinaryOf{Binary::add}, {operands[0], operands[1]}, {operands[0]}})[0];
      const graph::ChainOf chain{std::vector<graph::ChainStep>(20, sum)};
      EXPECT_EQ(run({Op::chain, chain, operands, {operands[0]}})[0].bytes, wanted.bytes) << name_of(isa);
    }
  }
}

// Of functions without jumps, whose results and slopes may differ by what an operand was rounded otherwise.
TEST(Elementwise, ChainsAreThePlainOnes) {
  const std::vector<graph::UnaryOf> smooth{{Unary::silu}, {Unary::sigmoid}, {Unary::gelu}, {Unary::tanh}, {Unary::scale}, {Unary::offset}};
  for (const DType dtype : floating_types()) {
    for (const graph::ChainOf& chain : chains(dtype, smooth)) {
      hold_to_plain({Op::chain, chain, {noise(dtype, {3, 700}, 1), noise(dtype, {3, 700}, 2), noise(dtype, {3, 700}, 3)},
                     Tensors(chain.result_count(), Tensor(dtype, {3, 700}))});
    }
  }
}

Tensor part_of(const Tensor& whole, std::int64_t first, std::int64_t count) {
  Tensor part(whole.dtype, {count});
  std::memcpy(part.bytes.data(), whole.bytes.data() + first * size_of(whole.dtype), part.bytes.size());
  return part;
}

std::byte* next_line(std::byte* at) { return reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(at) + 63) / 64 * 64); }

// The result is large enough for non-temporal stores, except for its last elements, and unless it does not begin on a cache line.
TEST(Elementwise, ALargeCastIsThatOfItsParts) {
  constexpr std::int64_t kCount = 8 * 1024 * 1024 / 2 + 77, kPart = 1000003;
  const Tensor x = noise(DType::float32, {kCount}, 1);
  for (const cpu::Isa isa : isas_here()) {
    const With with(isa);
    Tensor parts(DType::bfloat16, {kCount});
    for (std::int64_t first = 0; first < kCount; first += kPart) {
      const Tensor part = part_of(x, first, std::min(kPart, kCount - first));
      const Tensor made = run({Op::cast, {}, {part}, {Tensor(DType::bfloat16, part.shape)}})[0];
      std::memcpy(parts.bytes.data() + first * 2, made.bytes.data(), made.bytes.size());
    }
    for (const std::int64_t shift : {0, 2}) {
      std::vector<std::byte> memory(static_cast<std::size_t>(kCount * 2 + 128));
      std::byte* const line = next_line(memory.data());
      std::vector<View> given{x.view()}, result{View{line + shift, DType::bfloat16, {kCount}}};
      Workers workers(2);
      cpu::find_kernel(Op::cast)({{}, given, result, workers});
      EXPECT_EQ(std::memcmp(line + shift, parts.bytes.data(), parts.bytes.size()), 0) << name_of(isa) << ", shifted by " << shift;
    }
  }
}

// The same with chains, whose results may lie in place of their operands, which are then not written so.
TEST(Elementwise, ALargeChainIsThatOfItsParts) {
  constexpr std::int64_t kPart = 1000003;
  for (const DType dtype : {DType::bfloat16, DType::float32}) {
    const std::int64_t size = size_of(dtype), count = 8 * 1024 * 1024 / size + 77;
    const Tensors operands{noise(dtype, {count}, 1, -4, 4), noise(dtype, {count}, 2), noise(dtype, {count}, 3)};
    for (const cpu::Isa isa : isas_here()) {
      if (isa != cpu::Isa::avx512 && isa != cpu::Isa::avx512_bf16) continue;  // others never store so, or take the same kernels
      const With with(isa);
      std::vector<graph::ChainOf> all = chains(dtype, {{Unary::silu}});
      for (const graph::ChainOf& chain : gate_grads(dtype)) all.push_back(chain);
      for (const graph::ChainOf& chain : all) {
        if (chain.steps[1].binary.function != Binary::multiply) continue;
        Tensors parts(chain.result_count(), Tensor(dtype, {count}));
        for (std::int64_t first = 0; first < count; first += kPart) {
          Tensors of_part;
          for (const Tensor& operand : operands) of_part.push_back(part_of(operand, first, std::min(kPart, count - first)));
          const Tensors made = run({Op::chain, chain, of_part, Tensors(chain.result_count(), of_part[0])});
          for (std::size_t i = 0; i < made.size(); ++i) {
            std::memcpy(parts[i].bytes.data() + first * size, made[i].bytes.data(), made[i].bytes.size());
          }
        }
        for (const auto& [shift, is_in_place] : std::vector<std::pair<std::int64_t, bool>>{{0, true}, {size, true}, {0, false}}) {
          std::vector<std::byte> memory(6 * static_cast<std::size_t>(count * size + 192));
          std::byte* next = memory.data();
          std::vector<View> given;
          const auto add = [&, shift = shift](const Tensor& values) {
            next = next_line(next) + shift;
            std::memcpy(next, values.bytes.data(), values.bytes.size());
            given.push_back({next, dtype, {count}});
            next += values.bytes.size();
          };
          for (const Tensor& operand : operands) add(operand);
          for (const Tensor& operand : operands) add(operand);  // where results are that are not in place
          const auto first = given.begin() + (is_in_place ? 0 : 3);
          const std::vector<View> results(first, first + static_cast<std::ptrdiff_t>(parts.size()));
          given.resize(3);
          Workers workers(2);
          cpu::find_kernel(Op::chain)({chain, given, results, workers});
          for (std::size_t i = 0; i < parts.size(); ++i) {
            EXPECT_EQ(std::memcmp(results[i].data, parts[i].bytes.data(), parts[i].bytes.size()), 0)
                << chain.steps.size() << " steps, result " << i << ", " << name_of(isa) << ", shifted by " << shift;
          }
        }
      }
    }
  }
}

// Silu and its gradient are also right far from zero, and silu at NaN and infinity.
TEST(Elementwise, SiluHasNoEnd) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  for (const cpu::Isa isa : isas_here()) {
    const With with(isa);
    for (const DType dtype : floating_types()) {
      const Tensor x = values(dtype, {9}, {-3e38, -500, -90, -87, 0, 87, 90, 500, 3e38}), one = filled(dtype, {9}, 1);
      const Tensor y = run({Op::unary, graph::UnaryOf{Unary::silu}, {x}, {x}})[0];
      const Tensor slope = run({Op::unary_grad, graph::UnaryOf{Unary::silu}, {x, one}, {x}})[0];
      for (std::int64_t i = 0; i < 9; ++i) {
        EXPECT_NEAR(y.at(i), i < 5 ? 0 : x.at(i), i < 5 ? 1e-30 : 0) << x.at(i) << " on " << name_of(isa);
        EXPECT_NEAR(slope.at(i), i < 4 ? 0 : i == 4 ? 0.5 : 1, 1e-30) << x.at(i) << " on " << name_of(isa);
      }
      const Tensor no_number = values(dtype, {2}, {std::nan(""), kInfinite});
      const Tensor of_none = run({Op::unary, graph::UnaryOf{Unary::silu}, {no_number}, {no_number}})[0];
      EXPECT_TRUE(std::isnan(of_none.at(0)));
      EXPECT_EQ(of_none.at(1), kInfinite);
    }
  }
}

// Its approximation in bfloat16 is a unit in the last place off at most, where the exact result is nearly in the middle between two numbers.
TEST(Elementwise, SiluIsNearlyAlwaysTheNearestNumber) {
  constexpr std::int64_t kCount = 100000;
  const Tensor x = noise(DType::bfloat16, {kCount}, 1, -12, 12);
  for (const cpu::Isa isa : isas_here()) {
    const With with(isa);
    const Tensor y = run({Op::unary, graph::UnaryOf{Unary::silu}, {x}, {x}})[0];
    std::int64_t off = 0;
    for (std::int64_t i = 0; i < kCount; ++i) {
      const double exact = x.at(i) / (1 + std::exp(-x.at(i)));
      off += static_cast<double>(static_cast<float>(bfloat16(static_cast<float>(exact)))) == y.at(i) ? 0 : 1;
      EXPECT_NEAR(y.at(i), exact, std::abs(exact) * 0x1.02p-8) << x.at(i) << " on " << name_of(isa);
    }
    EXPECT_LT(off, kCount / 50) << name_of(isa);
  }
}

TEST(Elementwise, FiniteIsOneOrZero) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  const std::vector<double> numbers{0, -0.0, 1e30, -1e-30, kInfinite, -kInfinite, std::nan(""), 3};
  for (const DType dtype : floating_types()) {
    const Tensor x = values(dtype, {8}, numbers);
    const graph::UnaryOf of{Unary::finite};
    EXPECT_EQ(run({Op::unary, of, {x}, {x}})[0].bytes, values(dtype, {8}, {1, 1, 1, 1, 0, 0, 0, 1}).bytes);
    EXPECT_EQ(run_plain({Op::unary, of, {x}, {x}})[0].bytes, values(dtype, {8}, {1, 1, 1, 1, 0, 0, 0, 1}).bytes);
    EXPECT_EQ(run({Op::unary_grad, of, {x, x}, {x}})[0].bytes, filled(dtype, {8}, 0).bytes);
    EXPECT_EQ(run_plain({Op::unary_grad, of, {filled(dtype, {8}, 2), filled(dtype, {8}, 2)}, {x}})[0].bytes, filled(dtype, {8}, 0).bytes);
  }
}

TEST(Elementwise, NotANumberStaysOne) {
  const Tensor x = filled(DType::float32, {40}, std::numeric_limits<double>::quiet_NaN());
  for (const graph::UnaryOf& of : functions()) {
    EXPECT_TRUE(std::isnan(run({Op::unary, of, {x}, {x}})[0].at(3))) << name_of(of.function);
    EXPECT_TRUE(std::isnan(run_plain({Op::unary, of, {x}, {x}})[0].at(3))) << name_of(of.function);
  }
}

TEST(Elementwise, BinaryOpsAreThePlainOnes) {
  for (const Binary function : {Binary::add, Binary::subtract, Binary::multiply, Binary::divide}) {
    for (const DType dtype : floating_types()) {
      hold_to_plain({Op::binary, graph::BinaryOf{function}, {noise(dtype, {40001}, 1), noise(dtype, {40001}, 2, 0.5, 2)}, {Tensor(dtype, {40001})}});
    }
  }
}

TEST(Elementwise, CastsRoundToFloats) {
  const Tensor x = values(DType::float64, {2}, {1.00390625, 1.005859375});
  const auto to = [&](DType dtype) { return run({Op::cast, {}, {x}, {Tensor(dtype, {2})}})[0]; };
  EXPECT_EQ(to(DType::bfloat16).at(0), 1.0) << "halfway goes to even";
  EXPECT_EQ(to(DType::bfloat16).at(1), 1.0078125);
  const Tensor ids = values(DType::int32, {2}, {-7, 300});
  EXPECT_EQ(run({Op::cast, {}, {ids}, {Tensor(DType::float32, {2})}})[0].at(1), 300);
  EXPECT_EQ(run({Op::cast, {}, {ids}, {Tensor(DType::float64, {2})}})[0].at(0), -7);
  for (const DType dtype : floating_types()) hold_to_plain({Op::cast, {}, {draws({40001}, 1, 100000)}, {Tensor(dtype, {40001})}});
}

TEST(Elementwise, CastsBetweenFloatsAreThePlainOnes) {
  for (const DType from : floating_types()) {
    for (const DType to : floating_types()) hold_to_plain({Op::cast, {}, {noise(from, {40001}, 1)}, {Tensor(to, {40001})}});
  }
}

TEST(Elementwise, FillWritesEveryElement) {
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float64, DType::int32}) {
    const Tensor made = run({Op::fill, graph::FillOf{3}, {}, {Tensor(dtype, {40001})}})[0];
    for (std::int64_t i = 0; i < made.count(); ++i) ASSERT_EQ(made.at(i), 3);
  }
}

}  // namespace
}  // namespace moesh::backend::test
