// Along which axes the devices of a region have values of their own.
#include "graph/region.h"

#include <gtest/gtest.h>

#include "tests/support.h"

namespace moesh::graph {
namespace {

using sharding::AxisList;

class OwnAxes : public ::testing::Test {
 protected:
  Tensor shard(Shape shape, DType dtype, AxisList axes) { return builder_.shard_input("in", std::move(shape), dtype, std::move(axes)); }
  AxisList of(Tensor tensor) const { return builder_.own_axes(tensor.id); }

  // Axes 0 and 1 of two devices, axis 2 of four.
  const mesh::Mesh mesh_ = test::mesh_of({{"data", 2}, {"expert", 2}, {"tensor", 4}});
  Builder builder_ = Builder::of_region("body");
  const Tensor tokens_ = shard({6, 3}, DType::float32, {0, 1});
  const Tensor weights_ = shard({6, 3}, DType::float32, {1, 2});
};

TEST_F(OwnAxes, OfAResultAreThoseOfItsOperandsTogether) {
  EXPECT_EQ(of(add(tokens_, weights_)), (AxisList{0, 1, 2}));
  EXPECT_EQ(of(scale(tokens_, 2)), (AxisList{0, 1}));
  EXPECT_EQ(of(fill(builder_, 0, {2}, DType::float32)), AxisList{});
}

TEST_F(OwnAxes, OfWhatIsGatheredOrSummedAreThoseBeyondTheGroup) {
  EXPECT_EQ(of(gather(tokens_, group_of({1}, mesh_))), AxisList{0});
  EXPECT_EQ(of(all_sum(tokens_, mesh_, {0, 1})), AxisList{});
}

TEST_F(OwnAxes, OfWhatFollowsADevicesPlaceAreTheGroupsToo) {
  EXPECT_EQ(of(device_index(builder_, group_of({1, 2}, mesh_))), (AxisList{1, 2}));
  EXPECT_EQ(of(own_once(tokens_, group_of({2}, mesh_))), (AxisList{0, 1, 2}));
}

// Rows come from the whole group of the tokens; which ones says the order.
TEST_F(OwnAxes, OfRowsThatAreFetchedAreThoseOfTheirOrder) {
  const GroupOf group = group_of({1}, mesh_);
  const Tensor ids = gather(shard({6, 2}, DType::int32, {0, 1}), group);
  EXPECT_EQ(of(fetch_rows(tokens_, sort_slots(ids, {}, 4, 0), group)), AxisList{0});
  const SortedSlots slots = sort_slots(ids, device_index(builder_, group), 2, 0);
  const Tensor rows = fetch_rows(tokens_, slots, group);
  EXPECT_EQ(of(rows), (AxisList{0, 1}));
  EXPECT_EQ(of(return_rows(rows, slots, {}, 6, group)), (AxisList{0, 1}));
}

TEST(Region, RoomIsForEachTokenOnceAnExpert) {
  Builder builder;
  const Tensor ids = builder.input("ids", {10, 4}, DType::int32, {"", ""});
  EXPECT_EQ(sort_slots(ids, {}, 8, 0).order_R.size(0), 40);
  EXPECT_EQ(sort_slots(ids, {}, 2, 0).order_R.size(0), 20) << "of four choices at most two are here";
  EXPECT_EQ(sort_slots(ids, {}, 2, 7).order_R.size(0), 7);
}

TEST(Region, OfOneDeviceNeedsNoCollectives) {
  Builder builder;
  const Tensor x = builder.input("x", {3}, DType::float32, {""});
  EXPECT_EQ(gather(x, {}).id, x.id);
  EXPECT_EQ(own_once(x, {}).id, x.id);
  EXPECT_EQ(all_sum(x, mesh::Mesh({}), {}).id, x.id);
}

}  // namespace
}  // namespace moesh::graph
