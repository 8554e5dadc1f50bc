// Ops that one device of a group runs by itself. Both backends must give the same bits, and the expected values are worked out by hand.
#include "tests/backend/cpu/kernel_support.h"

namespace moesh::backend::test {
namespace {

using graph::GroupOf;
using graph::SortSlotsOf;

Tensors held(const Call& call) {
  Tensors made = run_plain(call);
  const Tensors fast = run(call);
  for (std::size_t i = 0; i < made.size(); ++i) EXPECT_EQ(fast[i].bytes, made[i].bytes);
  return made;
}

TEST(DevicesOfAGroup, ADeviceKnowsItsPlace) {
  EXPECT_EQ(held({Op::device_index, GroupOf{{}, 5}, {}, {Tensor(DType::int32, {})}, 3})[0].at(0), 3);
}

TEST(DevicesOfAGroup, TheFirstDeviceOwnsWhatIsOwnedOnce) {
  const Tensor x = noise(DType::float32, {2, 3}, 1);
  const auto once = [&](std::int64_t member) { return held({Op::own_once, GroupOf{{}, 2}, {x}, {x}, member})[0]; };
  EXPECT_EQ(once(0).bytes, x.bytes);
  EXPECT_EQ(once(1).bytes, filled(DType::float32, {2, 3}, 0).bytes);
}

Tensors plan(const Tensor& counts, std::int64_t index, std::int64_t experts_here, std::int64_t limit) {
  return held({Op::plan_exchange,
                    SortSlotsOf{limit},
                    {counts, integers({}, {static_cast<double>(index)})},
                    {Tensor(DType::int32, counts.shape), Tensor(DType::int32, {experts_here}), Tensor(DType::int32, {})}});
}

TEST(PlanExchange, KeepsAllWithoutALimit) {
  const Tensor counts = integers({2, 4}, {3, 0, 1, 2, 1, 4, 0, 5});
  const Tensors made = plan(counts, 1, 2, 0);
  EXPECT_EQ(made[0].bytes, counts.bytes);
  EXPECT_EQ(made[1].bytes, integers({2}, {1, 7}).bytes);
  EXPECT_EQ(made[2].at(0), 0);
}

// The first device's experts get 3 and 0 rows from the first device, and 1 and 4 from the second. The second device's experts get 1 and 2
// rows from the first device, and 0 and 5 from the second. Each device has room for five.
TEST(PlanExchange, DropsByTheDeviceThatRowsComeFromThenByExpert) {
  const Tensor counts = integers({2, 4}, {3, 0, 1, 2, 1, 4, 0, 5});
  const Tensor kept = integers({2, 4}, {3, 0, 1, 2, 1, 1, 0, 2});
  for (const std::int64_t index : {0, 1}) {
    const Tensors made = plan(counts, index, 2, 5);
    EXPECT_EQ(made[0].bytes, kept.bytes);
    EXPECT_EQ(made[1].bytes, (index == 0 ? integers({2}, {4, 1}) : integers({2}, {1, 4})).bytes);
    EXPECT_EQ(made[2].at(0), 3);
  }
}

}  // namespace
}  // namespace moesh::backend::test
