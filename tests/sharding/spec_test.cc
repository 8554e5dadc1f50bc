// Specs: the number of shards, the largest shard, and how specs are printed.
#include <gtest/gtest.h>

#include "sharding/spec.h"
#include "tests/support.h"

namespace moesh::sharding {
namespace {

const mesh::Mesh& mesh_of_specs() {
  static const mesh::Mesh mesh = test::mesh_of({{"data", 2}, {"one", 1}, {"fsdp", 4}});
  return mesh;
}

TEST(Spec, PrintsADimAnEntryAndPartialSumsAfterIt) {
  EXPECT_EQ(to_string(Spec{{{0, 2}, {}, {1}}, {}}, mesh_of_specs()), "[(data, fsdp), -, one]");
  EXPECT_EQ(to_string(Spec{{{}}, {0, 2}}, mesh_of_specs()), "[-] +sum(data, fsdp)");
  EXPECT_EQ(to_string(Spec{{{}}, {}, {0, 1}}, mesh_of_specs()), "[-] +own(data, one)");
}

TEST(Spec, HasShardsThatDifferAlongAllAxesItNames) {
  EXPECT_EQ(distinct_axes(Spec{{{2}, {}}, {0}, {}}), (AxisList{0, 2}));
  EXPECT_EQ(distinct_axes(Spec{{{}}, {}, {1, 2}}), (AxisList{1, 2}));
  EXPECT_EQ(distinct_axes(whole_spec(2)), AxisList{});
}

TEST(Spec, DropsAxesOfSizeOneOnRequest) {
  const Spec slim = without_size_one(Spec{{{0, 1}, {1}}, {1, 2}}, mesh_of_specs());
  EXPECT_EQ(slim, (Spec{{{0}, {}}, {2}}));
  EXPECT_EQ(without_size_one(Spec{{{}}, {}, {1, 2}}, mesh_of_specs()), (Spec{{{}}, {}, {2}}));
}

TEST(Spec, CountsShardsOfADimAndOfAValue) {
  EXPECT_EQ(shards(AxisList{0, 1, 2}, mesh_of_specs()), 8);
  EXPECT_EQ(shards(AxisList{}, mesh_of_specs()), 1);
  EXPECT_EQ(shards(Spec{{{0}, {2}}, {}}, mesh_of_specs()), 8);
}

TEST(Spec, MakesBlocksOfCeilSizeWhereADimDoesNotDivide) {
  const Spec spec{{{2}, {0}}, {}};
  EXPECT_EQ(shard_shape({10, 6}, spec, mesh_of_specs()), (Shape{3, 3}));
  EXPECT_FALSE(divides({10, 6}, spec, mesh_of_specs()));
  EXPECT_TRUE(divides({8, 6}, spec, mesh_of_specs()));
}

}  // namespace
}  // namespace moesh::sharding
