// What devices are said to send in regions.
#include "run/traffic.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "tests/support.h"

namespace moesh::run {
namespace {

// Two tokens a device with two choices each; slots are numbered token * 2 + choice.
class Traffic : public ::testing::Test {
 protected:
  // A value of which each device has its own.
  Placed of_devices(DType dtype, const std::vector<Shape>& shapes) {
    Placed made{shapes[0], {std::vector<sharding::AxisList>(shapes[0].size()), {0}}, {}};
    for (const Shape& shape : shapes) made.shards.push_back(pool_->allocate(shape, dtype));
    return made;
  }

  std::vector<double> sent_back(DType dtype, const std::vector<std::vector<std::int32_t>>& slots) {
    std::vector<Shape> rows, orders;
    for (const auto& of_device : slots) {
      const auto count = static_cast<std::int64_t>(of_device.size());
      rows.push_back({count, 4});
      orders.push_back({count});
    }
    const Placed values = of_devices(dtype, rows);
    Placed order = of_devices(DType::int32, orders);
    for (std::size_t m = 0; m < slots.size(); ++m) std::copy(slots[m].begin(), slots[m].end(), order.shards[m].as<std::int32_t>());
    graph::Node node;
    node.op = graph::Op::return_rows;
    node.attributes = graph::GroupOf{{0}, 2, 2};
    std::vector<double> sent;
    add_traffic(node, {&values, &order, &order}, of_devices(dtype, {{2, 4}, {2, 4}}), mesh_, sent);
    return sent;
  }

  const mesh::Mesh mesh_ = test::mesh_of({{"expert", 2}});
  std::shared_ptr<Pool> pool_ = Pool::create();
};

TEST_F(Traffic, OfRowsOnTheirWayBackIsOneForEachTokenOfAnotherDevice) {
  // The first device has both choices of token 2, which is the second one's, the second device one choice of tokens 0 and 1.
  EXPECT_EQ(sent_back(DType::bfloat16, {{4, 5, 0}, {1, 2}}), (std::vector<double>{8, 16}));
  EXPECT_EQ(sent_back(DType::float32, {{4, 5, 6}, {6, 7}}), (std::vector<double>{32, 0}));
}

}  // namespace
}  // namespace moesh::run
