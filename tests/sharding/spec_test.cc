// Specs: counting shards, the largest shard, and how they are printed.
#include <gtest/gtest.h>

#include "sharding/spec.h"
#include "tests/support.h"

namespace moesh::sharding {
namespace {

const mesh::Mesh& small_mesh() {
  static const mesh::Mesh mesh = test::mesh_of({{"data", 2}, {"one", 1}, {"fsdp", 4}});
  return mesh;
}

TEST(Spec, PrintsADimAnEntryAndPartialSumsAfterIt) {
  EXPECT_EQ(to_string(Spec{{{0, 2}, {}, {1}}, {}}, small_mesh()), "[(data, fsdp), -, one]");
  EXPECT_EQ(to_string(Spec{{{}}, {0, 2}}, small_mesh()), "[-] +sum(data, fsdp)");
  EXPECT_EQ(to_string(Spec{{{}}, {}, {0, 1}}, small_mesh()), "[-] +own(data, one)");
}

TEST(Spec, HasShardsThatDifferAlongAllAxesItNames) {
  EXPECT_EQ(distinct_axes(Spec{{{2}, {}}, {0}, {}}), (AxisList{0, 2}));
  EXPECT_EQ(distinct_axes(Spec{{{}}, {}, {1, 2}}), (AxisList{1, 2}));
  EXPECT_EQ(distinct_axes(whole_spec(2)), AxisList{});
}

TEST(Spec, DropsAxesOfSizeOneOnRequest) {
  const Spec slim = without_size_one(Spec{{{0, 1}, {1}}, {1, 2}}, small_mesh());
  EXPECT_EQ(slim, (Spec{{{0}, {}}, {2}}));
  EXPECT_EQ(without_size_one(Spec{{{}}, {}, {1, 2}}, small_mesh()), (Spec{{{}}, {}, {2}}));
}

TEST(Spec, CountsShardsOfADimAndOfAValue) {
  EXPECT_EQ(shards(AxisList{0, 1, 2}, small_mesh()), 8);
  EXPECT_EQ(shards(AxisList{}, small_mesh()), 1);
  EXPECT_EQ(shards(Spec{{{0}, {2}}, {}}, small_mesh()), 8);
}

TEST(Spec, MakesBlocksOfCeilSizeWhereADimDoesNotDivide) {
  const Spec spec{{{2}, {0}}, {}};
  EXPECT_EQ(shard_shape({10, 6}, spec, small_mesh()), (Shape{3, 3}));
  EXPECT_FALSE(divides({10, 6}, spec, small_mesh()));
  EXPECT_TRUE(divides({8, 6}, spec, small_mesh()));
}

}  // namespace
}  // namespace moesh::sharding
