// Tests of the kernels that move rows to the experts and back, as one device of a group runs them.
#include "tests/backend/cpu/rows_support.h"

namespace moesh::backend::test {
namespace {

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

// Experts 2 and 3 are on this device. Their five slots are sorted by expert, then by token; four fit, and the last one is dropped.
TEST(SortSlots, OrdersByExpertThenByTokenAndDropsWhatComesLast) {
  const Tensor ids = values(DType::int32, {4, 2}, {3, 0, 2, 3, 1, 2, 3, 1});
  const Tensors made = run(sort(ids, 1, 2, 4));
  EXPECT_EQ(made[0].bytes, values(DType::int32, {4}, {2, 5, 0, 3}).bytes);
  EXPECT_EQ(made[1].bytes, values(DType::int32, {2}, {2, 2}).bytes);
  EXPECT_EQ(made[2].at(0), 1);
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

// Five slots, two per token: of tokens 70000, 3, 300, 3 and 70000.
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

TEST(WeightedRowsGrad, IsThePlainOne) {
  for (const DType dtype : floating_types()) {
    for (const DType of_weights : {dtype, DType::float32}) {
      const Tensor rows = noise(dtype, {150, 301}, 1), weights = noise(of_weights, {150}, 2);
      hold_to_plain({Op::weighted_rows_grad, {}, {rows, weights, noise(dtype, {150, 301}, 3)}, {rows, weights}});
    }
  }
}

// The same bits as of rows that are fetched first.
TEST(FetchedRowsGrad, IsTheGradientOfRowsThatWereFetched) {
  for_each_group([](const Group& group, std::int64_t m) {
    for (const DType dtype : floating_types()) {
      for (const DType of_weights : {dtype, DType::float32}) {
        const Tensor rows = group.random_rows(dtype, 301, 1)[static_cast<std::size_t>(m)];
        const Tensor weights = group.random_weights(of_weights, 2)[static_cast<std::size_t>(m)];
        const Call fetch = group.fetch(group.random_tokens(dtype, 301, 3), m);
        Call fetched{Op::fetched_rows_grad, fetch.attributes, {rows, weights}, {rows, weights}};
        fetched.operands.insert(fetched.operands.end(), fetch.operands.begin(), fetch.operands.end());
        hold_to_plain(fetched);
        const Tensors made = run(fetched), wanted = run({Op::weighted_rows_grad, {}, {rows, weights, run(fetch)[0]}, {rows, weights}});
        for (const std::size_t i : {0u, 1u}) EXPECT_EQ(made[i].bytes, wanted[i].bytes) << i;
      }
    }
  });
}

// An expert without rows, on a device that has no rows at all.
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
  const Tensor no_weights(DType::float32, {0});
  hold_to_plain({Op::weighted_rows_grad, {}, {none, no_weights, none}, {none, no_weights}});
  hold_to_plain({Op::fetched_rows_grad, of, {none, no_weights, x, sorted[0], sorted[1]}, {none, no_weights}});
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
}  // namespace moesh::backend::test
