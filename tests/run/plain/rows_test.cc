// Collectives of regions, each on the operands of a whole group, and what a device does in its place.
#include "tests/run/cpu/kernel_support.h"

namespace moesh::run::test {
namespace {

using graph::GroupOf;
using graph::SortSlotsOf;

Tensor integers(Shape shape, const std::vector<double>& all) { return values(DType::int32, std::move(shape), all); }

// The op on a device of a group with one operand, which each device has its own of.
Tensor of_group(Op op, const Tensors& all, const Tensor& like, std::int64_t member) {
  const auto members = static_cast<std::int64_t>(all.size());
  return run_plain({op, GroupOf{{}, members}, all, {like}, member, members})[0];
}

TEST(RegionCollectives, ADeviceKnowsItsPlace) {
  EXPECT_EQ(run_plain({Op::device_index, GroupOf{{}, 5}, {}, {Tensor(DType::int32, {})}, 3})[0].at(0), 3);
}

TEST(RegionCollectives, GatherPutsTheDevicesOneAfterTheOther) {
  for (const DType dtype : {DType::int32, DType::bfloat16, DType::float64}) {
    const Tensors all{values(dtype, {1, 2}, {1, 2}), values(dtype, {1, 2}, {3, 4}), values(dtype, {1, 2}, {5, 6})};
    EXPECT_EQ(of_group(Op::gather, all, Tensor(dtype, {3, 2}), 1).bytes, values(dtype, {3, 2}, {1, 2, 3, 4, 5, 6}).bytes);
  }
}

TEST(RegionCollectives, TheFirstDeviceOwnsWhatIsOwnedOnce) {
  const Tensor x = noise(DType::float32, {2, 3}, 1);
  const auto once = [&](std::int64_t member) { return run_plain({Op::own_once, GroupOf{{}, 2}, {x}, {x}, member})[0]; };
  EXPECT_EQ(once(0).bytes, x.bytes);
  EXPECT_EQ(once(1).bytes, filled(DType::float32, {2, 3}, 0).bytes);
}

Tensors plan(const Tensor& counts, std::int64_t index, std::int64_t experts_here, std::int64_t limit) {
  return run_plain({Op::plan_exchange,
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

// The first device's experts are asked for 3, 0, 1 and 4 rows, the second one's for 1, 2, 0 and 5; five fit on each.
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

// Two devices, two experts each: what each has for every expert, and how much of it is kept.
struct Exchanged {
  Tensor counts = integers({2, 4}, {2, 0, 1, 2, 1, 3, 0, 1});
  Tensors kept, sizes;
  Tensors sent{noise(DType::float64, {5, 3}, 1), noise(DType::float64, {5, 3}, 2)};
  Tensors received;

  explicit Exchanged(std::int64_t limit) {
    for (std::int64_t m = 0; m < 2; ++m) {
      const Tensors made = plan(counts, m, 2, limit);
      kept.push_back(made[0]);
      sizes.push_back(made[1]);
      received.push_back(noise(DType::float64, {static_cast<std::int64_t>(made[1].at(0) + made[1].at(1)), 3}, 3 + static_cast<unsigned>(m)));
    }
  }

  Tensor exchange(const Tensors& rows, const Tensor& like, std::int64_t member, bool back) const {
    const Tensors operands{rows[0], rows[1], counts, counts, kept[0], kept[1], sizes[0], sizes[1]};
    return run_plain({Op::exchange_rows, GroupOf{{}, 2, 1, back}, operands, {like}, member, 2})[0];
  }
};

TEST(ExchangeRows, SortsByExpertThenByTheDeviceThatRowsComeFrom) {
  const Exchanged e(0);
  // The rows' own numbers: ten for the device, then their place there.
  const Tensors rows{values(DType::float64, {5, 1}, {10, 11, 12, 13, 14}), values(DType::float64, {5, 1}, {20, 21, 22, 23, 24})};
  const Tensor first = e.exchange(rows, Tensor(DType::float64, {6, 1}), 0, false);
  EXPECT_EQ(first.bytes, values(DType::float64, {6, 1}, {10, 11, 20, 21, 22, 23}).bytes);
  const Tensor second = e.exchange(rows, Tensor(DType::float64, {4, 1}), 1, false);
  EXPECT_EQ(second.bytes, values(DType::float64, {4, 1}, {12, 13, 14, 24}).bytes);
  EXPECT_EQ(e.exchange({first, second}, rows[0], 0, true).bytes, rows[0].bytes);
  EXPECT_EQ(e.exchange({first, second}, rows[1], 1, true).bytes, rows[1].bytes);
}

TEST(ExchangeRows, ComeBackAsZerosWhereTheyWereDropped) {
  const Exchanged e(3);
  const Tensors rows{values(DType::float64, {5, 1}, {10, 11, 12, 13, 14}), values(DType::float64, {5, 1}, {20, 21, 22, 23, 24})};
  const Tensor first = e.exchange(rows, Tensor(DType::float64, {3, 1}), 0, false);
  EXPECT_EQ(first.bytes, values(DType::float64, {3, 1}, {10, 11, 20}).bytes);
  const Tensor second = e.exchange(rows, Tensor(DType::float64, {3, 1}), 1, false);
  EXPECT_EQ(e.exchange({first, second}, rows[0], 0, true).bytes, rows[0].bytes);
  EXPECT_EQ(e.exchange({first, second}, rows[1], 1, true).bytes, values(DType::float64, {5, 1}, {20, 0, 0, 0, 0}).bytes);
}

double dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.count(); ++i) sum += a.at(i) * b.at(i);
  return sum;
}

TEST(ExchangeRows, AndTheWayBackAreTransposes) {
  for (const std::int64_t limit : {0, 3}) {
    const Exchanged e(limit);
    double there = 0, back = 0;
    for (std::int64_t m = 0; m < 2; ++m) {
      const auto at = static_cast<std::size_t>(m);
      there += dot(e.exchange(e.sent, e.received[at], m, false), e.received[at]);
      back += dot(e.sent[at], e.exchange(e.received, e.sent[at], m, true));
    }
    EXPECT_GT(std::abs(there), 0.1) << "the case tests nothing";
    EXPECT_NEAR(there, back, 1e-12);
  }
}

}  // namespace
}  // namespace moesh::run::test
