// Shades of grey for the load of experts.
#include "train/expert_shades.h"

#include <gtest/gtest.h>

namespace moesh::train {
namespace {

using Shades = std::vector<std::uint8_t>;

Shades shades(const std::vector<double>& tokens) { return expert_shades(tokens); }

TEST(ExpertShades, GoByTheSharesOfALayersTokens) {
  EXPECT_EQ(shades({5, 5, 5}), (Shades{127, 127, 127}));
  EXPECT_EQ(shades({0, 1, 3}), (Shades{0, 95, 255}));
  EXPECT_EQ(shades({2, 0}), (Shades{255, 0}));
  EXPECT_EQ(shades({0, 0}), (Shades{0, 0}));
  EXPECT_EQ(shades({}), Shades{});
}

}  // namespace
}  // namespace moesh::train
