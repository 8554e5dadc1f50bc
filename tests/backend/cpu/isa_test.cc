#include "tests/backend/cpu/kernel_support.h"

#include <cmath>
#include <limits>

#include "backend/cpu/column_softmax.h"
#include "backend/cpu/simd.h"
#include "base/error.h"
#include "graph/facts.h"
#include "tests/support.h"

namespace moesh::backend::test {
namespace {

using moesh::test::message_of;

TEST(Isa, IsTheOneThatIsAskedFor) {
  for (const cpu::Isa isa : isas_here()) {
    const With with(isa);
    EXPECT_EQ(cpu::chosen_isa(), isa);
  }
}

TEST(Isa, IsTheBestOfTheMachineWhenNothingIsAskedFor) {
  const auto best = std::find_if(cpu::kIsas.rbegin(), cpu::kIsas.rend(), cpu::machine_has);
  EXPECT_EQ(cpu::chosen_isa(), *best);
}

TEST(Isa, RefusesANameItDoesNotKnow) {
  ::setenv("MOESH_ISA", "mmx", 1);
  const std::string message = message_of([] { cpu::chosen_isa(); });
  ::unsetenv("MOESH_ISA");
  EXPECT_NE(message.find("'mmx' names no instructions"), std::string::npos) << message;
  EXPECT_NE(message.find("one of portable, avx2, avx512, avx512_bf16, amx_bf16"), std::string::npos) << message;
}

TEST(Isa, RefusesInstructionsThatTheMachineLacks) {
  for (const cpu::Isa isa : cpu::kIsas) {
    const With with(isa);
    const std::string message = message_of([] { cpu::chosen_isa(); });
    const std::string lacks = "this machine has no " + std::string(cpu::name_of(isa)) + "\n  fix: leave it unset: ";
    EXPECT_EQ(message.find(lacks) != std::string::npos, !cpu::can_run(isa)) << message;
  }
}

TEST(Simd, ExponentialsAreRightToTwoUnitsInTheLastPlace) {
  double worst = 0;
  for (float x = -87.3f; x < 88.7f; x += 0.0137f) {
    const double exact = std::exp(static_cast<double>(x));
    worst = std::max(worst, std::abs(static_cast<double>(cpu::exp_of(x)) - exact) / exact);
  }
  EXPECT_LT(worst, 2 * 1.2e-7);
}

TEST(Simd, HyperbolicTangentsAndTheirSlopesAreRightToFourUnitsInTheLastPlace) {
  double worst = 0;
  const auto see = [&](float x) {
    const auto [tanh, slope] = cpu::tanh_and_slope_of(x);
    const double exact = std::tanh(static_cast<double>(x)), cosh = std::cosh(static_cast<double>(x)), of_slope = 1 / (cosh * cosh);
    worst = std::max({worst, std::abs(static_cast<double>(tanh) - exact) / std::abs(exact),
                      std::abs(x) < 43 ? std::abs(static_cast<double>(slope) - of_slope) / of_slope : 0});
  };
  for (float x = 1e-30f; x < 100; x *= 1.0003f) see(x), see(-x);
  EXPECT_LT(worst, 4 * 1.2e-7);
}

TEST(Simd, HyperbolicTangentsEndInOneAndNaN) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(cpu::tanh_and_slope_of(0.0f).tanh, 0.0f);
  EXPECT_EQ(cpu::tanh_and_slope_of(0.0f).slope, 1.0f);
  EXPECT_EQ(cpu::tanh_and_slope_of(infinity).tanh, 1.0f);
  EXPECT_EQ(cpu::tanh_and_slope_of(-infinity).tanh, -1.0f);
  EXPECT_LT(cpu::tanh_and_slope_of(infinity).slope, 1e-36f);
  EXPECT_TRUE(std::isnan(cpu::tanh_and_slope_of(std::numeric_limits<float>::quiet_NaN()).tanh));
  EXPECT_TRUE(std::isnan(cpu::tanh_and_slope_of(std::numeric_limits<float>::quiet_NaN()).slope));
}

TEST(Simd, SinesAndCosinesAreRightInEveryQuarter) {
  double worst = 0;
  const auto see = [&](double angle) {
    const cpu::SineAndCosine of = cpu::sine_and_cosine_of(angle);
    worst = std::max({worst, std::abs(of.sine - std::sin(angle)), std::abs(of.cosine - std::cos(angle))});
  };
  for (double angle = -30; angle < 30; angle += 0.00137) see(angle);
  for (double angle = 30; angle < 536870912; angle *= 1.00003) see(angle), see(-angle);
  EXPECT_LT(worst, 1e-11);
}

TEST(Simd, ExponentialsEndInZeroInfinityAndNaN) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(cpu::exp_of(-infinity), 0.0f);
  EXPECT_EQ(cpu::exp_of(-1e30f), 0.0f);
  EXPECT_EQ(cpu::exp_of(infinity), infinity);
  EXPECT_EQ(cpu::exp_of(1e30f), infinity);
  EXPECT_EQ(cpu::exp_of(0.0f), 1.0f);
  EXPECT_TRUE(std::isnan(cpu::exp_of(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isfinite(cpu::exp_of(88.72f)));
}

// Exponentials with a base of 0, in the layout of attention and the loss: all columns of a row have the same score. Returns one column.
template <int kColumns, typename E>
std::vector<E> exponentials(cpu::Isa isa, const std::vector<float>& scores, float& sum) {
  const auto rows = static_cast<std::int64_t>(scores.size());
  std::vector<float> all, base(kColumns, 0.0f), sums(kColumns, 0.0f);
  for (const float score : scores) all.insert(all.end(), kColumns, score);
  std::vector<E> made(all.size(), E(0.0f)), column;
  // The exponentials are also kept, in blocks with room between them.
  constexpr std::int64_t kTogether = 3, kStep = 5 * kColumns;
  struct alignas(64) Line { std::byte bytes[64]; };
  std::vector<Line> kept(static_cast<std::size_t>((rows / kTogether + 1) * kStep) * sizeof(E) / sizeof(Line) + 1);
  const cpu::RowsInBlocks<E> blocks{reinterpret_cast<E*>(kept.data()), kTogether, kStep};
  const float* const no_slopes = nullptr;
  cpu::exponentiate<kColumns>(isa, rows, base.data(), all.data(), made.data(), sums.data(), no_slopes, blocks);
  for (std::int64_t row = 0; row < rows; ++row) {
    const E* const there = blocks.block(row) + row % kTogether * kColumns;
    EXPECT_EQ(0, std::memcmp(there, &made[static_cast<std::size_t>(row * kColumns)], kColumns * sizeof(E))) << name_of(isa);
  }
  for (std::size_t row = 0; row < scores.size(); ++row) {
    for (int j = 1; j < kColumns; ++j) EXPECT_EQ(0, std::memcmp(&made[row * kColumns], &made[row * kColumns + static_cast<std::size_t>(j)], sizeof(E)));
    column.push_back(made[row * kColumns]);
  }
  sum = sums[kColumns - 1];
  return column;
}

TEST(Exponentiate, IsRightToTwoUnitsInTheLastPlaceOnAllInstructions) {
  std::vector<float> scores;
  for (float x = -87.3f; x < 88.0f; x += 0.0137f) scores.push_back(x);
  for (const cpu::Isa isa : isas_here()) {
    float sum = 0;
    double worst = 0;
    const auto hold = [&](const std::vector<float>& made, double tolerance) {
      for (std::size_t i = 0; i < scores.size(); ++i) {
        const double exact = std::exp(static_cast<double>(scores[i]));
        worst = std::max(worst, std::abs(static_cast<double>(made[i]) - exact) / exact);
      }
      EXPECT_LT(worst, tolerance) << name_of(isa);
    };
    hold(exponentials<8, float>(isa, scores, sum), 2 * 1.2e-7);
    hold(exponentials<32, float>(isa, scores, sum), 2 * 1.2e-7);
    std::vector<float> widened;
    for (const bfloat16 one : exponentials<32, bfloat16>(isa, scores, sum)) widened.push_back(static_cast<float>(one));
    hold(widened, 1.0 / 256);
  }
}

TEST(Exponentiate, EndsInZeroAndNaNAndAddsUp) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const cpu::Isa isa : isas_here()) {
    float sum = 0;
    const std::vector<float> made = exponentials<32, float>(isa, {0.0f, -infinity, -1e30f, -87.4f, std::log(2.0f)}, sum);
    EXPECT_EQ(made[0], 1.0f) << name_of(isa);
    for (int i : {1, 2, 3}) EXPECT_EQ(made[static_cast<std::size_t>(i)], 0.0f) << name_of(isa);
    EXPECT_FLOAT_EQ(sum, 3.0f) << name_of(isa);
    EXPECT_TRUE(std::isnan(exponentials<32, float>(isa, {std::numeric_limits<float>::quiet_NaN(), 1.0f}, sum)[0])) << name_of(isa);
    EXPECT_TRUE(std::isnan(sum)) << name_of(isa);
  }
}

}  // namespace
}  // namespace moesh::backend::test
