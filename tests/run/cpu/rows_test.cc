// Rows on their way to the experts and back, alone and in groups of devices that share out the experts.
#include <algorithm>

#include "tests/run/cpu/kernel_support.h"

namespace moesh::run::test {
namespace {

using graph::GroupOf;
using graph::SortSlotsOf;

constexpr std::int64_t kTokens = 50;  // of a device
constexpr std::int64_t kChoices = 3;
constexpr std::int64_t kExperts = 12;  // of all devices

std::int64_t sum_of(const Tensor& sizes) {
  std::int64_t sum = 0;
  for (std::int64_t e = 0; e < sizes.count(); ++e) sum += static_cast<std::int64_t>(sizes.at(e));
  return sum;
}

Call sort(const Tensor& ids_TK, std::int64_t index, std::int64_t experts_here, std::int64_t limit) {
  return {Op::sort_slots,
          SortSlotsOf{limit},
          {ids_TK, filled(DType::int32, {}, static_cast<double>(index))},
          {Tensor(DType::int32, {limit > 0 ? limit : ids_TK.count()}), Tensor(DType::int32, {experts_here}),
           Tensor(DType::int32, {})}};
}

double dot(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.shape, b.shape);
  double sum = 0;
  for (std::int64_t i = 0; i < a.count(); ++i) sum += a.at(i) * b.at(i);
  return sum;
}

// Devices with tokens of their own, and the slots of the experts that each has; most have room for more rows.
struct Group {
  std::int64_t members;
  Tensors orders, sizes;

  explicit Group(std::int64_t count, std::int64_t limit = 0) : members(count) {
    const Tensor ids = draws({count * kTokens, kChoices}, 4, kExperts);
    for (std::int64_t m = 0; m < count; ++m) {
      const Tensors made = run(sort(ids, m, kExperts / count, limit));
      orders.push_back(made[0]);
      sizes.push_back(made[1]);
    }
  }

  std::int64_t rows(std::int64_t member) const { return sum_of(sizes[static_cast<std::size_t>(member)]); }

  Tensors random_tokens(DType dtype, std::int64_t width, unsigned seed) const {
    Tensors all;
    for (std::int64_t m = 0; m < members; ++m) all.push_back(noise(dtype, {kTokens, width}, seed + static_cast<unsigned>(m)));
    return all;
  }
  Tensors random_rows(DType dtype, std::int64_t width, unsigned seed) const {
    Tensors all;
    for (std::int64_t m = 0; m < members; ++m) all.push_back(noise(dtype, {rows(m), width}, seed + static_cast<unsigned>(m)));
    return all;
  }
  Tensors random_weights(DType dtype, unsigned seed) const {
    Tensors all;
    for (std::int64_t m = 0; m < members; ++m) all.push_back(noise(dtype, {rows(m)}, seed + static_cast<unsigned>(m)));
    return all;
  }

  Call gather(const Tensors& x) const {
    return {Op::gather, GroupOf{{}, members}, x, {Tensor(x[0].dtype, {members * kTokens, x[0].shape[1]})}, 0, members};
  }
  Call fetch(const Tensors& x, std::int64_t member) const {
    return {Op::fetch_rows,
            own(),
            {run(gather(x))[0], order(member), size(member)},
            {Tensor(x[0].dtype, {rows(member), x[0].shape[1]})}};
  }
  Call list(std::int64_t member) const {
    const Tensor room(DType::int32, {std::min(rows(member), members * kTokens)});
    return {Op::list_tokens,
            own(),
            {order(member), size(member)},
            {room, room, Tensor(DType::int32, {rows(member)}), Tensor(DType::int32, {})}};
  }
  Call sum(const Tensor& of_rows, std::int64_t member, const Tensors& weights = {}) const {
    const Tensors listed = run(list(member));
    Call made{Op::sum_rows, {}, {of_rows, listed[2], listed[1], listed[3]}, {}};
    if (!weights.empty()) made.operands.push_back(weights[static_cast<std::size_t>(member)]);
    made.results.emplace_back(of_rows.dtype, Shape{static_cast<std::int64_t>(listed[3].at(0)), of_rows.shape[1]});
    return made;
  }
  Call scatter(const Tensors& rows_of_all, std::int64_t member, const Tensors& weights = {}) const {
    Call made{Op::scatter_rows, GroupOf{{}, members, kChoices}, {}, {}, member, members};
    Tensors sums, tokens, counts;
    for (std::int64_t m = 0; m < members; ++m) {
      const Tensors listed = run(list(m));
      sums.push_back(run(sum(rows_of_all[static_cast<std::size_t>(m)], m, weights))[0]);
      tokens.push_back(listed[0]);
      counts.push_back(listed[3]);
    }
    for (const Tensors& of_all : {sums, tokens, counts}) made.operands.insert(made.operands.end(), of_all.begin(), of_all.end());
    made.results.emplace_back(sums[0].dtype, Shape{kTokens, sums[0].shape[1]});
    return made;
  }

 private:
  static GroupOf own() { return {{}, 1, kChoices}; }
  const Tensor& order(std::int64_t member) const { return orders[static_cast<std::size_t>(member)]; }
  const Tensor& size(std::int64_t member) const { return sizes[static_cast<std::size_t>(member)]; }
};

// On a device alone: the rows come back in one step.
Call give_back(const Group& alone, const Tensor& rows, const Tensors& weights = {}) {
  Call made{Op::return_rows,
            GroupOf{{}, 1, kChoices},
            {rows, alone.orders[0], alone.sizes[0]},
            {Tensor(rows.dtype, {kTokens, rows.shape[1]})}};
  made.operands.insert(made.operands.end(), weights.begin(), weights.end());
  return made;
}

template <typename Check>
void for_each_group(const Check& check) {
  for (const std::int64_t members : {1, 2, 4}) {
    for (const std::int64_t limit : {0, 17}) {
      const Group group(members, limit);
      for (std::int64_t m = 0; m < members; ++m) check(group, m);
    }
  }
}

TEST(SortSlots, IsThePlainOne) {
  const Tensor ids = draws({200, kChoices}, 4, kExperts);
  for (const std::int64_t here : {1, 3, 12}) {
    for (const std::int64_t limit : {0, 1, 17, 600}) {
      for (std::int64_t index = 0; index < kExperts / here; ++index) hold_to_plain(sort(ids, index, here, limit));
    }
  }
  Call all = sort(ids, 0, kExperts, 0);
  all.operands.pop_back();
  hold_to_plain(all);
}

// Experts 2 and 3 are here. Their slots stand by expert, then by token; of five, the last finds no room.
TEST(SortSlots, OrdersByExpertThenByTokenAndDropsWhatComesLast) {
  const Tensor ids = values(DType::int32, {4, 2}, {3, 0, 2, 3, 1, 2, 3, 1});
  const Tensors made = run(sort(ids, 1, 2, 4));
  EXPECT_EQ(made[0].bytes, values(DType::int32, {4}, {2, 5, 0, 3}).bytes);
  EXPECT_EQ(made[1].bytes, values(DType::int32, {2}, {2, 2}).bytes);
  EXPECT_EQ(made[2].at(0), 1);
}

TEST(Gather, IsThePlainOne) {
  for (const std::int64_t members : {1, 3}) {
    for (const DType dtype : {DType::bfloat16, DType::float64, DType::int32}) {
      Tensors all;
      for (std::int64_t m = 0; m < members; ++m) all.push_back(noise(dtype, {kTokens, 3001}, static_cast<unsigned>(m), -9, 9));
      hold_to_plain(Group(members).gather(all));
    }
  }
}

TEST(FetchRows, IsThePlainOne) {
  for (const DType dtype : floating_types()) {
    for_each_group(
        [&](const Group& group, std::int64_t m) { hold_to_plain(group.fetch(group.random_tokens(dtype, 301, 1), m)); });
  }
}

TEST(ReturnRows, IsThePlainOne) {
  for (const DType dtype : floating_types()) {
    for (const std::int64_t limit : {0, 17}) {
      const Group alone(1, limit);
      const Tensor rows = alone.random_rows(dtype, 301, 1)[0];
      hold_to_plain(give_back(alone, rows));
      for (const DType of_weights : {dtype, DType::float32})
        hold_to_plain(give_back(alone, rows, alone.random_weights(of_weights, 9)));
    }
  }
}

TEST(ListTokens, IsThePlainOne) {
  for_each_group([&](const Group& group, std::int64_t m) { hold_to_plain(group.list(m)); });
}

// Slots of tokens 70000, 3, 300 and 3 again, two a token.
TEST(ListTokens, SortsTokensAndTheirRows) {
  const Tensor order = values(DType::int32, {5}, {140000, 6, 600, 7, 140001}), none(DType::int32, {0});
  const Tensor three(DType::int32, {3}), five(DType::int32, {5}), one(DType::int32, {});
  const Tensors made = run({Op::list_tokens, GroupOf{{}, 1, 2}, {order, none}, {three, three, five, one}});
  EXPECT_EQ(made[0].bytes, values(DType::int32, {3}, {3, 300, 70000}).bytes);
  EXPECT_EQ(made[1].bytes, values(DType::int32, {3}, {2, 3, 5}).bytes);
  EXPECT_EQ(made[2].bytes, values(DType::int32, {5}, {1, 3, 2, 0, 4}).bytes);
  EXPECT_EQ(made[3].at(0), 3);
}

TEST(SumRows, IsThePlainOne) {
  for (const DType dtype : floating_types()) {
    for_each_group([&](const Group& group, std::int64_t m) {
      const Tensor rows = group.random_rows(dtype, 301, 1)[static_cast<std::size_t>(m)];
      hold_to_plain(group.sum(rows, m));
      for (const DType of_weights : {dtype, DType::float32})
        hold_to_plain(group.sum(rows, m, group.random_weights(of_weights, 9)));
    });
  }
}

TEST(ScatterRows, IsThePlainOne) {
  for (const DType dtype : floating_types()) {
    for_each_group(
        [&](const Group& group, std::int64_t m) { hold_to_plain(group.scatter(group.random_rows(dtype, 301, 1), m)); });
  }
}

// The first token of a group's first device, of which each member has some rows; weights are ones where they are given.
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
  EXPECT_EQ(run_plain(scatter)[0].at(0), made);
  return made;
}

// A row a device travels, in the values' type: 1 + 2^-8 is 1 in bfloat16, so what is lost on the way is lost.
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

// A device alone has them in one step, to the same bits.
TEST(RowsThatComeBack, AreOnADeviceAloneWhatTheyAreInAGroup) {
  for (const DType dtype : floating_types()) {
    const Group alone(1, 100);
    const Tensors rows = alone.random_rows(dtype, 37, 1), weights = alone.random_weights(DType::float32, 9);
    EXPECT_EQ(run(give_back(alone, rows[0], weights))[0].bytes, run(alone.scatter(rows, 0, weights))[0].bytes);
  }
}

TEST(WeightedRowsGrad, IsThePlainOne) {
  for (const DType dtype : floating_types()) {
    for (const DType of_weights : {dtype, DType::float32}) {
      const Tensor rows = noise(dtype, {150, 301}, 1), weights = noise(of_weights, {150}, 2);
      hold_to_plain({Op::weighted_rows_grad, {}, {rows, weights, noise(dtype, {150, 301}, 3)}, {rows, weights}});
    }
  }
}

// An expert without a row, on a device without any.
TEST(Rows, MayBeNone) {
  const Tensor ids = filled(DType::int32, {5, 1}, 0);
  const Tensors sorted = run(sort(ids, 1, 1, 0));
  EXPECT_EQ(sum_of(sorted[1]), 0);
  const Tensor x = noise(DType::float32, {5, 3}, 1), none(DType::float32, {0, 3});
  const GroupOf of{{}, 1, 1};
  hold_to_plain({Op::fetch_rows, of, {x, sorted[0], sorted[1]}, {none}});
  EXPECT_EQ(run({Op::return_rows, of, {none, sorted[0], sorted[1]}, {x}})[0].bytes, filled(DType::float32, {5, 3}, 0).bytes);
  const Tensor nothing(DType::int32, {0}), no_token = filled(DType::int32, {}, 0);
  EXPECT_EQ(run({Op::list_tokens, of, {sorted[0], sorted[1]}, {nothing, nothing, nothing, no_token}})[3].at(0), 0);
  hold_to_plain({Op::sum_rows, {}, {none, nothing, nothing, no_token}, {none}});
  EXPECT_EQ(run({Op::scatter_rows, GroupOf{{}, 2, 1}, {none, none, nothing, nothing, no_token, no_token}, {x}, 1, 2})[0].bytes,
            filled(DType::float32, {5, 3}, 0).bytes);
  hold_to_plain({Op::weighted_rows_grad, {}, {none, Tensor(DType::float32, {0}), none}, {none, Tensor(DType::float32, {0})}});
}

// What a group fetches, times anything, is its tokens times what the other comes back as: each is the other's gradient.
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

TEST(WeightedRowsGrad, IsTheSlopeOfWhatIsReturned) {
  const Group group(1, 100);
  const DType f64 = DType::float64;
  const Tensor rows = group.random_rows(f64, 4, 1)[0];
  const Tensors weights = group.random_weights(f64, 2);
  const Tensor dy = noise(f64, {kTokens, 4}, 3);
  const Tensor fetched = run(group.fetch({dy}, 0))[0];
  hold_to_differences(give_back(group, rows, weights), {dy}, Op::weighted_rows_grad, {rows, weights[0], fetched}, {0, 3});
}

}  // namespace
}  // namespace moesh::run::test
