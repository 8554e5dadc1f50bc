#include "tests/backend/cpu/kernel_support.h"

#include <cmath>
#include <limits>

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

TEST(Isa, IsTheBestOfTheMachineWhenNothingIsAskedFor) { EXPECT_EQ(cpu::chosen_isa(), isas_here().back()); }

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
    EXPECT_EQ(message.find(lacks) != std::string::npos, !cpu::machine_has(isa)) << message;
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

}  // namespace
}  // namespace moesh::backend::test
