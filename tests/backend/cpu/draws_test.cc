#include "backend/cpu/draws.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "base/random.h"
#include "tests/backend/cpu/kernel_support.h"

namespace moesh::backend::test {
namespace {

using cpu::NormalDraws;

constexpr RandomKey kKey{5, 11};

std::vector<float> drawn(const NormalDraws& normal, std::uint64_t first, std::size_t count) {
  std::vector<float> numbers(count);
  normal.draw(kKey, first, numbers);
  return numbers;
}

double spread_of(const std::vector<float>& numbers) {
  double squares = 0;
  for (const float number : numbers) squares += static_cast<double>(number) * static_cast<double>(number);
  return std::sqrt(squares / static_cast<double>(numbers.size()));
}

// Expected values come from the paper's own implementation.
TEST(Threefry, GivesThePublishedNumbers) {
  EXPECT_EQ(threefry({0, 0}, {0, 0}), (std::array<std::uint32_t, 2>{0x6b200159u, 0x99ba4efeu}));
  EXPECT_EQ(threefry({~0u, ~0u}, {~0u, ~0u}), (std::array<std::uint32_t, 2>{0x1cb996fcu, 0xbb002be7u}));
  EXPECT_EQ(threefry({0x13198a2eu, 0x03707344u}, {0x243f6a88u, 0x85a308d3u}), (std::array<std::uint32_t, 2>{0xc4923a9cu, 0x483df7a0u}));
}

TEST(NormalDraws, AreWhatTheErrorFunctionTakesToUniformNumbers) {
  const std::vector<float> numbers = drawn(NormalDraws(), 0, 100000);
  double worst = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const double uniform = 2 * static_cast<double>(random_uniform(kKey, i)) - 1;
    worst = std::max(worst, std::abs(std::erf(static_cast<double>(numbers[i]) / std::sqrt(2.0)) - uniform));
  }
  EXPECT_LT(worst, 3e-7);
}

TEST(NormalDraws, HaveTheirSpread) {
  const std::vector<float> whole = drawn(NormalDraws(), 0, 1 << 20), cut = drawn(NormalDraws(2), 0, 1 << 20);
  EXPECT_NEAR(spread_of(whole), 1, 3e-3);
  EXPECT_NEAR(spread_of(cut), 0.87962566, 3e-3);
  EXPECT_GT(*std::max_element(whole.begin(), whole.end()), 4.4f);
  EXPECT_LT(*std::max_element(cut.begin(), cut.end()), 2.0f);
  EXPECT_GT(*std::max_element(cut.begin(), cut.end()), 1.999f);
  EXPECT_GT(*std::min_element(cut.begin(), cut.end()), -2.0f);
}

TEST(NormalDraws, AreTheSameWithAllInstructionsAndInAnyPieces) {
  constexpr std::uint64_t kFirst = (std::uint64_t{1} << 32) - 500;  // the counter's second word changes within the range
  const std::vector<float> whole = drawn(NormalDraws(), kFirst, 1000);
  EXPECT_FALSE(std::any_of(whole.begin(), whole.end(), [](float number) { return !std::isfinite(number); }));
  for (const cpu::Isa isa : isas_here()) {
    const With with(isa);
    std::vector<float> pieces;
    for (std::size_t begin = 0; begin < whole.size(); begin += 77) {
      const std::vector<float> piece = drawn(NormalDraws(), kFirst + begin, std::min<std::size_t>(77, whole.size() - begin));
      pieces.insert(pieces.end(), piece.begin(), piece.end());
    }
    EXPECT_EQ(pieces, whole) << cpu::name_of(isa);
  }
  EXPECT_NE(drawn(NormalDraws(), 0, 500), std::vector<float>(whole.begin() + 500, whole.end()));
}

}  // namespace
}  // namespace moesh::backend::test
