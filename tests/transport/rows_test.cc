// Tests of the collectives that move rows between the devices of a group. Each is given the operands of all members.
#include "tests/backend/cpu/rows_support.h"

namespace moesh::backend::test {
namespace {

// Runs an op of one operand on one device of a group; `all` has the operand of every device.
Tensor of_group(Op op, const Tensors& all, const Tensor& like, std::int64_t member) {
  const auto members = static_cast<std::int64_t>(all.size());
  return run({op, GroupOf{{}, members}, all, {like}, member, members})[0];
}

TEST(Gather, PutsTheDevicesOneAfterTheOther) {
  for (const DType dtype : {DType::int32, DType::bfloat16, DType::float64}) {
    const Tensors all{values(dtype, {1, 2}, {1, 2}), values(dtype, {1, 2}, {3, 4}), values(dtype, {1, 2}, {5, 6})};
    EXPECT_EQ(of_group(Op::gather, all, Tensor(dtype, {3, 2}), 1).bytes, values(dtype, {3, 2}, {1, 2, 3, 4, 5, 6}).bytes);
  }
}

// The shards are so large that they are copied in pieces by several threads.
TEST(Gather, CopiesEveryByteOfLargeShards) {
  Tensors all;
  std::vector<std::byte> expected;
  for (unsigned m = 0; m < 3; ++m) {
    all.push_back(noise(DType::float64, {50, 3001}, m, -9, 9));
    expected.insert(expected.end(), all.back().bytes.begin(), all.back().bytes.end());
  }
  EXPECT_EQ(of_group(Op::gather, all, Tensor(DType::float64, {150, 3001}), 0).bytes, expected);
}

// The expected result of scatter_rows: for each token, its owner sums what the devices send, in the order of devices.
Tensor scattered(const Call& call) {
  const Tensor& out = call.results[0];
  Tensor made(out.dtype, out.shape);
  const std::int64_t width = out.shape[1];
  for (std::int64_t t = 0; t < out.shape[0]; ++t) {
    for (std::int64_t j = 0; j < width; ++j) {
      double sum = 0;
      for (std::int64_t m = 0; m < call.members; ++m) {
        const auto of = [&](std::int64_t operand) { return call.operands[static_cast<std::size_t>(operand * call.members + m)]; };
        for (std::int64_t p = 0; p < static_cast<std::int64_t>(of(2).at(0)); ++p) {
          if (static_cast<std::int64_t>(of(1).at(p)) != call.member * out.shape[0] + t) continue;
          sum = out.dtype == DType::float64 ? sum + of(0).at(p * width + j)
                                            : static_cast<double>(static_cast<float>(sum) + static_cast<float>(of(0).at(p * width + j)));
        }
      }
      made.set(t * width + j, sum);
    }
  }
  return made;
}

TEST(ScatterRows, AddsUpWhatDevicesSendForATokenInTheirOrder) {
  for (const DType dtype : floating_types()) {
    for_each_group([&](const Group& group, std::int64_t m) {
      const Call call = group.scatter(group.random_rows(dtype, 31, 1), m);
      EXPECT_EQ(run(call)[0].bytes, scattered(call).bytes);
    });
  }
}

TEST(ScatterRows, IsZeroWhereNoRowComesBack) {
  const Tensor x = noise(DType::float32, {5, 3}, 1), none(DType::float32, {0, 3}), nothing(DType::int32, {0});
  const Tensor no_token = filled(DType::int32, {}, 0);
  EXPECT_EQ(run({Op::scatter_rows, GroupOf{{}, 2, 1}, {none, none, nothing, nothing, no_token, no_token}, {x}, 1, 2})[0].bytes,
            filled(DType::float32, {5, 3}, 0).bytes);
}

// What comes back for the first token of a group's first device, of which each member has some rows. Weights, if there are any, are ones.
double returned(DType dtype, const std::vector<std::vector<double>>& rows_of_members, bool is_weighted) {
  const auto members = static_cast<std::int64_t>(rows_of_members.size());
  Call scatter{Op::scatter_rows, GroupOf{{}, members, 8}, {}, {Tensor(dtype, {1, 1})}, 0, members};
  Tensors sums, tokens, counts;
  for (const std::vector<double>& rows : rows_of_members) {
    const auto count = static_cast<std::int64_t>(rows.size());
    Tensor numbers(DType::int32, {count});
    for (std::int64_t i = 0; i < count; ++i) numbers.set(i, static_cast<double>(i));
    Call sum{Op::sum_rows,
             {},
             {values(dtype, {count, 1}, rows), numbers, filled(DType::int32, {1}, static_cast<double>(count)),
              filled(DType::int32, {}, 1)},
             {Tensor(dtype, {1, 1})}};
    if (is_weighted) sum.operands.push_back(filled(dtype, {count}, 1));
    sums.push_back(run(sum)[0]);
    EXPECT_EQ(run_plain(sum)[0].bytes, sums.back().bytes);
    tokens.push_back(filled(DType::int32, {1}, 0));
    counts.push_back(filled(DType::int32, {}, 1));
  }
  for (const Tensors& more : {sums, tokens, counts}) scatter.operands.insert(scatter.operands.end(), more.begin(), more.end());
  const double made = run(scatter)[0].at(0);
  return made;
}

// Every device sends one row in the type of the values. As 1 + 2^-8 is 1 in bfloat16, what is rounded away before sending is lost.
TEST(RowsThatComeBack, AreRoundedWhereTheyAreSent) {
  const double small = 0x1p-8;
  for (const bool is_weighted : {false, true}) {
    EXPECT_EQ(returned(DType::bfloat16, {{1, small}, {small}}, is_weighted), 1) << "1 from the first device, and again";
    EXPECT_EQ(returned(DType::bfloat16, {{1}, {small, small}}, is_weighted), 1 + 2 * small) << "2^-7 from the second";
    EXPECT_EQ(returned(DType::bfloat16, {{1, small, small}}, is_weighted), 1 + 2 * small) << "a device's own sum is wide";
    EXPECT_EQ(returned(DType::bfloat16, {{1}, {small}, {small}}, is_weighted), 1 + 2 * small) << "so is the owner's";
    EXPECT_EQ(returned(DType::float32, {{1, small}, {small}}, is_weighted), 1 + 2 * small);
  }
}

// 2^24 + 1 is 2^24 in float32.
TEST(RowsThatComeBack, AreAddedUpByDeviceThenInTheirOrder) {
  for (const bool is_weighted : {false, true}) {
    EXPECT_EQ(returned(DType::float32, {{0x1p24}, {1, 1}}, is_weighted), 0x1p24 + 2);
    EXPECT_EQ(returned(DType::float32, {{0x1p24}, {1}, {1}}, is_weighted), 0x1p24);
    EXPECT_EQ(returned(DType::float32, {{1}, {1}, {0x1p24}}, is_weighted), 0x1p24 + 2);
    EXPECT_EQ(returned(DType::float64, {{0x1p24}, {1}, {1}}, is_weighted), 0x1p24 + 2);
  }
}

// On a single device rows come back in one step, with the same bits.
TEST(RowsThatComeBack, AreOnADeviceAloneWhatTheyAreInAGroup) {
  for (const DType dtype : floating_types()) {
    const Group alone(1, 100);
    const Tensors rows = alone.random_rows(dtype, 37, 1), weights = alone.random_weights(DType::float32, 9);
    EXPECT_EQ(run(give_back(alone, rows[0], weights))[0].bytes, run(alone.scatter(rows, 0, weights))[0].bytes);
  }
}

// The dot product of fetched tokens and any rows equals that of the tokens and the returned rows, so fetching and returning are each
// other's gradient.
TEST(Rows, FetchingAndReturningAreTransposes) {
  for (const std::int64_t members : {1, 2, 4}) {
    for (const std::int64_t limit : {0, 17}) {
      const Group group(members, limit);
      const Tensors x = group.random_tokens(DType::float64, 7, 1), y = group.random_rows(DType::float64, 7, 11);
      double fetched = 0, returned = 0;
      for (std::int64_t m = 0; m < members; ++m) {
        const auto at = static_cast<std::size_t>(m);
        fetched += dot(run(group.fetch(x, m))[0], y[at]);
        returned += dot(x[at], run(group.scatter(y, m))[0]);
      }
      EXPECT_GT(std::abs(fetched), 0.1) << "the case tests nothing";
      EXPECT_NEAR(fetched, returned, 1e-12 * (1 + std::abs(fetched)));
    }
  }
}

Tensors exchange_plan(const Tensor& counts, std::int64_t index, std::int64_t experts_here, std::int64_t limit) {
  return run({Op::plan_exchange,
                    SortSlotsOf{limit},
                    {counts, integers({}, {static_cast<double>(index)})},
                    {Tensor(DType::int32, counts.shape), Tensor(DType::int32, {experts_here}), Tensor(DType::int32, {})}});
}

// Two devices with two experts each: how many rows each device has for every expert, and how many of these are kept.
struct Exchanged {
  Tensor counts = integers({2, 4}, {2, 0, 1, 2, 1, 3, 0, 1});
  Tensors kept, sizes;
  Tensors sent{noise(DType::float64, {5, 3}, 1), noise(DType::float64, {5, 3}, 2)};
  Tensors received;

  explicit Exchanged(std::int64_t limit) {
    for (std::int64_t m = 0; m < 2; ++m) {
      const Tensors made = exchange_plan(counts, m, 2, limit);
      kept.push_back(made[0]);
      sizes.push_back(made[1]);
      received.push_back(noise(DType::float64, {static_cast<std::int64_t>(made[1].at(0) + made[1].at(1)), 3}, 3 + static_cast<unsigned>(m)));
    }
  }

  Tensor exchange(const Tensors& rows, const Tensor& like, std::int64_t member, bool back) const {
    const Tensors operands{rows[0], rows[1], counts, counts, kept[0], kept[1], sizes[0], sizes[1]};
    return run({Op::exchange_rows, GroupOf{{}, 2, 1, back}, operands, {like}, member, 2})[0];
  }
};

TEST(ExchangeRows, SortsByExpertThenByTheDeviceThatRowsComeFrom) {
  const Exchanged e(0);
  // Each row holds a number: 10 or 20 for its device, plus its place there.
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
}  // namespace moesh::backend::test
