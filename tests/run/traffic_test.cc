// What devices are said to send in regions.
#include "run/traffic.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "tests/support.h"

namespace moesh::run {
namespace {

// Two tokens a device, four numbers each.
class Traffic : public ::testing::Test {
 protected:
  // A value of which each device has its own.
  Placed of_devices(DType dtype, const std::vector<Shape>& shapes) {
    Placed made{shapes[0], {std::vector<sharding::AxisList>(shapes[0].size()), {}, {0}}, {}};
    for (const Shape& shape : shapes) made.shards.push_back(pool_->allocate(shape, dtype));
    return made;
  }

  // Devices have sums for these tokens, and room for one more.
  std::vector<double> sent_back(DType dtype, const std::vector<std::vector<std::int32_t>>& listed) {
    std::vector<Shape> of_sums, of_tokens;
    for (const auto& of_device : listed) {
      of_sums.push_back({static_cast<std::int64_t>(of_device.size()), 4});
      of_tokens.push_back({static_cast<std::int64_t>(of_device.size()) + 1});
    }
    const Placed sums = of_devices(dtype, of_sums), tokens = of_devices(DType::int32, of_tokens),
                 counts = of_devices(DType::int32, {{}, {}});
    for (std::size_t m = 0; m < listed.size(); ++m) {
      std::fill_n(tokens.shards[m].as<std::int32_t>(), tokens.shards[m].view.count(), 3 - 2 * static_cast<std::int32_t>(m));
      std::copy(listed[m].begin(), listed[m].end(), tokens.shards[m].as<std::int32_t>());
      *counts.shards[m].as<std::int32_t>() = static_cast<std::int32_t>(listed[m].size());
    }
    return sent(graph::Op::scatter_rows, {sums, tokens, counts}, of_devices(dtype, {{2, 4}, {2, 4}}));
  }

  std::vector<double> sent(graph::Op op, const std::vector<Placed>& operands, const Placed& result) {
    plan::Instruction node;
    node.kind = plan::Instruction::Kind::collective;
    node.op = op;
    node.attributes = graph::GroupOf{{0}, 2, 2};
    std::vector<double> bytes(2, 0);
    add_traffic(node, operands, result, mesh_, bytes);
    return bytes;
  }

  const mesh::Mesh mesh_ = test::mesh_of({{"expert", 2}});
  std::shared_ptr<Pool> pool_ = Pool::create();
};

TEST_F(Traffic, OfRowsOnTheirWayBackIsOneForEachTokenOfAnotherDeviceWithItsNumber) {
  // The first device has rows of tokens 0 and 2, of which the second one's is 2; the second has rows of both of the first one's.
  EXPECT_EQ(sent_back(DType::bfloat16, {{0, 2}, {0, 1}}), (std::vector<double>{8 + 4, 2 * (8 + 4)}));
  EXPECT_EQ(sent_back(DType::float32, {{2, 3}, {2, 3}}), (std::vector<double>{2 * (16 + 4), 0}));
}

TEST_F(Traffic, IsThatOfCollectivesOnly) {
  const Placed x = of_devices(DType::float32, {{3}, {3}});
  EXPECT_EQ(sent(graph::Op::gather, {x}, of_devices(DType::float32, {{6}, {6}})), (std::vector<double>{12, 12}));
  EXPECT_EQ(sent(graph::Op::own_once, {x}, x), (std::vector<double>{0, 0}));
}

}  // namespace
}  // namespace moesh::run
