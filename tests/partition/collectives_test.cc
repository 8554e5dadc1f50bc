// Tests which collectives regions are planned to have, and how many bytes these send.
#include "partition/collectives.h"

#include <gtest/gtest.h>

#include "graph/region.h"
#include "tests/support.h"

namespace moesh::partition {
namespace {

using graph::Tensor;
using Kind = graph::ReshardOf::Kind;

// Two devices with eight tokens each. A token has four elements and chooses two of four experts.
class RowsOnTheirWay : public ::testing::Test {
 protected:
  Tensor shard(Shape shape, DType dtype) { return builder_.shard_input("in", std::move(shape), dtype, {0}); }

  Collective only() {
    builder_.mark_result(made_);
    const std::vector<Collective> all = collectives_of_region(builder_.take());
    EXPECT_EQ(all.size(), 1u);
    return all.front();
  }

  // Scatters the sums of the tokens to which these rows belong.
  void scatter(std::int64_t rows) {
    const graph::ListedTokens listed = graph::list_tokens(shard({rows}, DType::int32), shard({2}, DType::int32), group_, 16);
    made_ = graph::scatter_rows(graph::sum_rows(shard({rows, 4}, DType::float32), listed, {}), listed, 8, group_);
  }

  graph::Exchange exchange() {
    return graph::plan_exchange(shard({2, 4}, DType::int32), shard({}, DType::int32), 2, group_, 16, 24, 0);
  }

  const graph::GroupOf group_{.axes = {0}, .members = 2, .choices = 2, .experts = 4, .experts_here = 2};
  graph::Builder builder_ = graph::Builder::of_region("body");
  Tensor made_;
};

// Of six pairs of experts one has none here, so that of sixteen tokens 13 and a third are expected to have one. Each takes sixteen bytes and four for its number.
TEST_F(RowsOnTheirWay, ComeBackWithTheirTokensNumbers) {
  scatter(32);
  const Collective collective = only();
  EXPECT_EQ(collective.kind, Kind::reduce_scatter);
  EXPECT_EQ(collective.axes, (sharding::AxisList{0}));
  EXPECT_EQ(collective.group, 2);
  EXPECT_EQ(collective.operand_bytes, 5 * 16 * (16 + 4) / 6);
  EXPECT_EQ(collective.bound_bytes, 16 * (16 + 4)) << "a token comes back once, however many rows it has";
  EXPECT_NEAR(static_cast<double>(collective.wire_bytes), 2.5 * 16 * (16 + 4) / 6, 1);
  EXPECT_TRUE(collective.in_region);
}

TEST_F(RowsOnTheirWay, AreNoMoreThanThereIsRoomFor) {
  scatter(10);
  const Collective collective = only();
  EXPECT_EQ(collective.operand_bytes, 10 * (16 + 4));
  EXPECT_EQ(collective.bound_bytes, 10 * (16 + 4));
}

// Sixteen rows go out; up to 24 may arrive and come back.
TEST_F(RowsOnTheirWay, GoOutAsMuchAsTheSenderHas) {
  made_ = graph::exchange_rows(shard({16, 4}, DType::float32), exchange());
  const Collective collective = only();
  EXPECT_EQ(collective.kind, Kind::all_to_all);
  EXPECT_EQ(collective.operand_bytes, 16 * 16);
  EXPECT_EQ(collective.bound_bytes, 16 * 16);
  EXPECT_EQ(collective.wire_bytes, 8 * 16);
}

TEST_F(RowsOnTheirWay, ComeBackAsMuchAsArrivedAtMost) {
  made_ = graph::exchange_back(shard({24, 4}, DType::float32), exchange());
  const Collective collective = only();
  EXPECT_EQ(collective.kind, Kind::all_to_all);
  EXPECT_EQ(collective.operand_bytes, 16 * 16);
  EXPECT_EQ(collective.bound_bytes, 24 * 16);
  EXPECT_EQ(collective.wire_bytes, 8 * 16);
}

TEST_F(RowsOnTheirWay, HaveABoundAndOthersHaveNone) {
  made_ = graph::gather(shard({8, 4}, DType::float32), group_);
  const Collective collective = only();
  EXPECT_EQ(collective.kind, Kind::all_gather);
  EXPECT_EQ(collective.operand_bytes, 8 * 16);
  EXPECT_EQ(collective.bound_bytes, std::nullopt);
}

}  // namespace
}  // namespace moesh::partition
