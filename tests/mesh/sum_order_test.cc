// The steps in which values are summed over devices.
#include "mesh/sum_order.h"

#include <gtest/gtest.h>

namespace moesh::mesh {
namespace {

using Steps = std::vector<std::int64_t>;

TEST(SumSteps, AreTheAxesInTheMeshsOrder) {
  const Mesh mesh({{"data", 2, 1}, {"fsdp", 3, 1}, {"expert", 1, 1}, {"tensor", 4, 1}});
  EXPECT_EQ(sum_steps(mesh, {0, 1, 3}), (Steps{2, 3, 4}));
  EXPECT_EQ(sum_steps(mesh, {3, 0}), (Steps{2, 4})) << "however they are named";
  EXPECT_EQ(sum_steps(mesh, {2, 3}), (Steps{4})) << "one device is no step";
  EXPECT_EQ(sum_steps(mesh, {}), Steps{});
}

TEST(SumSteps, AreTwoForAnAxisThatCrossesSlices) {
  const Mesh mesh({{"data", 2, 3}, {"fsdp", 1, 5}, {"tensor", 4, 1}});
  EXPECT_EQ(sum_steps(mesh, {0}), (Steps{3, 2})) << "within the slices first";
  EXPECT_EQ(sum_steps(mesh, {0, 1, 2}), (Steps{3, 2, 5, 4}));
}

}  // namespace
}  // namespace moesh::mesh
