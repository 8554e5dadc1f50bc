// Kernels of the indexer. Shape suffixes: B rows, S queries, T keys, H heads, D a head's width.
#include "backend/chosen_keys.h"
#include "tests/backend/cpu/kernel_support.h"

namespace moesh::backend::test {
namespace {

using graph::ChooseKeysOf;
using graph::words_of_keys;

struct IndexSizes {
  std::int64_t rows, queries, keys, heads, dim;
};

// IndexSizes of one tile, of several in each dim, of more heads than a tile has, and of a decoding step.
const std::vector<IndexSizes>& index_sizes() {
  static const std::vector<IndexSizes> all{{2, 9, 9, 3, 6}, {1, 40, 600, 16, 8}, {2, 70, 70, 5, 20}, {1, 3, 40, 300, 4}, {3, 1, 90, 4, 16}};
  return all;
}

Call scores_call(DType dtype, const IndexSizes& s, bool by_place = false) {
  const DType wide = wide_of(dtype);
  Tensor order = draws({s.rows, s.queries}, 9, static_cast<std::uint32_t>(s.keys));
  order.set(0, -1);
  return {Op::index_scores,
          graph::IndexScoresOf{by_place},
          {noise(dtype, {s.rows, s.queries, s.heads, s.dim}, 1), noise(dtype, {s.rows, s.keys, s.dim}, 2),
           noise(wide, {s.rows, s.queries, s.heads}, 3), order},
          {Tensor(wide, {s.rows, s.queries, s.keys})}};
}

Call gradient_of_scores(const Call& call) {
  Call back{Op::index_scores_grad, call.attributes, call.operands, {call.operands[0], call.operands[1], call.operands[2]}};
  back.operands.push_back(noise(call.results[0].dtype, call.results[0].shape, 4));
  return back;
}

TEST(IndexScores, AndTheirGradientsAreThePlainOnes) {
  for (const IndexSizes& s : index_sizes()) {
    for (const DType dtype : floating_types()) {
      for (const bool by_place : {false, true}) {
        const Call call = scores_call(dtype, s, by_place);
        hold_to_plain(call);
        hold_to_plain(gradient_of_scores(call), dtype == DType::bfloat16 ? 0.02 : 0);
      }
    }
  }
}

TEST(IndexScores, HaveGradientsThatAreTheirSlopes) {
  for (const bool by_place : {false, true}) {
    const Call call = scores_call(DType::float64, {2, 3, 5, 2, 4}, by_place), back = gradient_of_scores(call);
    hold_to_differences(call, {back.operands.back()}, Op::index_scores_grad, back.operands, {0, 1, 2});
  }
}

TEST(IndexScores, DoNotSeeWhatMemoryHolds) {
  for (const DType dtype : floating_types()) {
    const Call call = scores_call(dtype, {1, 40, 600, 16, 8});
    expect_not_to_see_what_memory_holds(call);
    expect_not_to_see_what_memory_holds(gradient_of_scores(call));
  }
}

// One head, and a weight below 0: a product below 0 counts nothing, whatever its weight.
TEST(IndexScores, CountWhatIsPositive) {
  const Call call{Op::index_scores,
                  graph::IndexScoresOf{},
                  {values(DType::float32, {1, 1, 2, 1}, {2, -3}), values(DType::float32, {1, 3, 1}, {1, -1, 0}),
                   values(DType::float32, {1, 1, 2}, {0.5, -4}), values(DType::int32, {1, 1}, {0})},
                  {Tensor(DType::float32, {1, 1, 3})}};
  expect_near(run(call)[0], values(DType::float32, {1, 1, 3}, {1, -12, 0}), 1e-6);
  Call by_place = call;
  by_place.attributes = graph::IndexScoresOf{true};
  expect_near(run(by_place)[0], values(DType::float32, {1, 1, 3}, {1, 0, 0}), 1e-6);
}

// Places and segments of packed rows; the last tokens of a row are padding.
Tensors packed_tokens(std::int64_t rows, std::int64_t length) {
  Tensor places(DType::int32, {rows, length}), segments(DType::int32, {rows, length});
  for (std::int64_t i = 0; i < rows * length; ++i) {
    const std::int64_t at = i % length, begin = at < length / 3 ? 0 : length / 3;
    places.set(i, static_cast<double>(at - begin));
    segments.set(i, at >= length - 3 ? 0 : begin == 0 ? 1 : 2);
  }
  return {places, segments};
}

Call choice_call(Tensor scores, const ChooseKeysOf& of, const Tensors& of_queries, const Tensors& of_keys) {
  const Shape chosen{scores.shape[0], scores.shape[1], words_of_keys(scores.shape[2])};
  return {Op::choose_keys, of, {std::move(scores), of_queries[0], of_queries[1], of_keys[0], of_keys[1]}, {Tensor(DType::int32, chosen)}};
}

// Scores of few different values, so that many are equal; some are no numbers.
Tensor tied_scores(DType dtype, const Shape& shape) {
  Tensor made = converted(draws(shape, 7, 5), dtype);
  for (std::int64_t i = 0; i < made.count(); i += 37) made.set(i, std::numeric_limits<double>::quiet_NaN());
  for (std::int64_t i = 5; i < made.count(); i += 11) made.set(i, i % 2 == 0 ? -0.0 : -2.5);
  return made;
}

TEST(ChooseKeys, IsThePlainOne) {
  for (const std::int64_t length : {1, 31, 32, 33, 100}) {
    const Tensors tokens = length < 5 ? Tensors{filled(DType::int32, {2, length}, 0), filled(DType::int32, {2, length}, 1)} : packed_tokens(2, length);
    for (const DType dtype : {DType::float32, DType::float64}) {
      for (const bool breaks_ties : {true, false}) {
        for (const std::int64_t keys : {1, 2, 7, 40, 1000}) {
          const ChooseKeysOf of{keys, breaks_ties};
          hold_to_plain(choice_call(noise(dtype, {2, length, length}, 3), of, tokens, tokens));
          hold_to_plain(choice_call(tied_scores(dtype, {2, length, length}), of, tokens, tokens));
        }
      }
    }
  }
}

std::vector<std::int64_t> chosen_by(const Call& call, std::int64_t query) {
  const Tensor made = run(call)[0];
  std::vector<std::int64_t> keys;
  ChosenKeys(made.view()).each(query, [&](std::int64_t key) { keys.push_back(key); });
  return keys;
}

using KeyList = std::vector<std::int64_t>;

// Key 1 is of another segment, and key 4 comes after the query.
TEST(ChooseKeys, TakesTheBestOfThoseThatAQuerySees) {
  const Tensors of_query{values(DType::int32, {1, 1}, {3}), values(DType::int32, {1, 1}, {1})};
  const Tensors of_keys{values(DType::int32, {1, 5}, {0, 1, 2, 3, 4}), values(DType::int32, {1, 5}, {1, 2, 1, 1, 1})};
  const auto chosen = [&](std::int64_t keys) {
    return chosen_by(choice_call(values(DType::float32, {1, 1, 5}, {-1, 9, -3, -2, 9}), {keys}, of_query, of_keys), 0);
  };
  EXPECT_EQ(chosen(1), KeyList{0});
  EXPECT_EQ(chosen(2), (KeyList{0, 3}));
  EXPECT_EQ(chosen(3), (KeyList{0, 2, 3}));
  EXPECT_EQ(chosen(4), (KeyList{0, 2, 3}));
}

// A balanced context stores the tokens of a row in another order: of equal scores the first ones are those of the row, not of memory.
TEST(ChooseKeys, BreaksTiesByTheOrderOfTheRow) {
  const Tensors of_query{values(DType::int32, {1, 1}, {3}), values(DType::int32, {1, 1}, {1})};
  const Tensors of_keys{values(DType::int32, {1, 4}, {3, 1, 0, 2}), filled(DType::int32, {1, 4}, 1)};
  const auto chosen = [&](std::int64_t keys, bool breaks_ties) {
    return chosen_by(choice_call(values(DType::float32, {1, 1, 4}, {0, 0, 0, 5}), {keys, breaks_ties}, of_query, of_keys), 0);
  };
  EXPECT_EQ(chosen(1, true), KeyList{3});
  EXPECT_EQ(chosen(2, true), (KeyList{2, 3}));
  EXPECT_EQ(chosen(3, true), (KeyList{1, 2, 3}));
  EXPECT_EQ(chosen(2, false), (KeyList{0, 1, 2, 3}));
  EXPECT_EQ(chosen(1, false), KeyList{3});
}

// Slots of a cache behind the queries hold whatever was there before.
TEST(IndexScores, AndChoicesDoNotLookBehindTheQueries) {
  Call call = scores_call(DType::float32, {2, 3, 700, 4, 8}, true);
  for (std::int64_t i = 0; i < 6; ++i) call.operands[3].set(i, static_cast<double>(100 + i));
  const Tensors before = run(call);
  for (std::int64_t i = 0; i < call.operands[1].count(); ++i) {
    if (i / 8 % 700 > 105) call.operands[1].set(i, std::numeric_limits<double>::quiet_NaN());
  }
  EXPECT_EQ(run(call)[0].bytes, before[0].bytes);
  const Tensors of_query{call.operands[3], filled(DType::int32, {2, 3}, 1)};
  Tensors of_keys{Tensor(DType::int32, {2, 700}), filled(DType::int32, {2, 700}, 1)};
  for (std::int64_t i = 0; i < 1400; ++i) of_keys[0].set(i, static_cast<double>(i % 700 <= 105 ? i % 700 : 0));
  const Tensor chosen = run(choice_call(before[0], {.keys = 50, .keys_by_place = true}, of_query, of_keys))[0];
  for (std::int64_t query = 0; query < 6; ++query) {
    ChosenKeys(chosen.view()).each(query, [&](std::int64_t key) { EXPECT_LE(key, 100 + query); });
  }
}

// Keys of five tokens each.
TEST(IndexScores, AndChoicesAmongPoolsByPlaceAreThePlainOnes) {
  for (const IndexSizes& s : index_sizes()) {
    for (const DType dtype : floating_types()) {
      Call call = scores_call(dtype, s);
      call.attributes = graph::IndexScoresOf{true, 5};
      for (std::int64_t i = 1; i < call.operands[3].count(); ++i) call.operands[3].set(i, 5 * call.operands[3].at(i) + static_cast<double>(i % 5));
      hold_to_plain(call);
      if (dtype == DType::bfloat16) continue;
      const Tensors of_query{call.operands[3], filled(DType::int32, {s.rows, s.queries}, 1)};
      const Tensors of_keys{draws({s.rows, s.keys}, 3, 9), filled(DType::int32, {s.rows, s.keys}, 1)};
      hold_to_plain(choice_call(noise(wide_of(dtype), {s.rows, s.queries, s.keys}, 3), {4, true, true, 5}, of_query, of_keys));
    }
  }
  const Tensors of_query{values(DType::int32, {1, 1}, {10}), values(DType::int32, {1, 1}, {1})};
  const Tensors of_keys{filled(DType::int32, {1, 4}, 0), filled(DType::int32, {1, 4}, 1)};
  EXPECT_EQ(chosen_by(choice_call(values(DType::float32, {1, 1, 4}, {1, 2, 3, 4}), {1, true, true, 4}, of_query, of_keys), 0), KeyList{1})
      << "the third key's last token is behind the query";
}

// Random keys up to a query's own, the own one among them.
Tensor random_choice(std::int64_t rows, std::int64_t queries, std::int64_t keys, std::int64_t most) {
  const Tensors tokens{Tensor(DType::int32, {rows, queries}), filled(DType::int32, {rows, queries}, 1)};
  Tensors of_query = tokens, of_keys{Tensor(DType::int32, {rows, keys}), filled(DType::int32, {rows, keys}, 1)};
  for (std::int64_t i = 0; i < rows * queries; ++i) of_query[0].set(i, static_cast<double>(keys - queries + i % queries));
  for (std::int64_t i = 0; i < rows * keys; ++i) of_keys[0].set(i, static_cast<double>(i % keys));
  return run(choice_call(noise(DType::float32, {rows, queries, keys}, 11), {most}, of_query, of_keys))[0];
}

TEST(ChosenRows, AreThePlainOnesOfAnyType) {
  const Tensor chosen = random_choice(3, 1, 70, 20);
  for (const DType dtype : floating_types()) {
    for (const std::int64_t room : {20, 30}) {
      hold_to_plain({Op::chosen_rows,
                     graph::ChosenRowsOf{},
                     {chosen, noise(dtype, {3, 70, 5}, 1), draws({3, 70}, 2, 9), noise(dtype, {3, 70, 2, 3}, 3)},
                     {Tensor(dtype, {3, room, 5}), Tensor(DType::int32, {3, room}), Tensor(dtype, {3, room, 2, 3})}});
    }
  }
}

TEST(ChosenRows, StandBehindTheRowsThatAreTakenAnyhow) {
  const Tensor chosen = random_choice(3, 1, 70, 20);
  for (const DType dtype : floating_types()) {
    hold_to_plain({Op::chosen_rows,
                   graph::ChosenRowsOf{9},
                   {chosen, noise(dtype, {3, 79, 5}, 1), draws({3, 79}, 2, 9)},
                   {Tensor(dtype, {3, 31, 5}), Tensor(DType::int32, {3, 31})}});
  }
  const Tensors made = run({Op::chosen_rows,
                            graph::ChosenRowsOf{2},
                            {values(DType::int32, {1, 1, 1}, {0b100}), values(DType::int32, {1, 5}, {5, 6, 7, 8, 9})},
                            {Tensor(DType::int32, {1, 4})}});
  expect_near(made[0], values(DType::int32, {1, 4}, {5, 6, 9, -1}), 0);
}

TEST(ChosenRows, EndInWhatNoTokenHas) {
  const Tensor chosen = values(DType::int32, {1, 1, 1}, {0b1010});
  const Tensors made = run({Op::chosen_rows,
                            graph::ChosenRowsOf{},
                            {chosen, values(DType::float32, {1, 4, 1}, {1, 2, 3, 4}), values(DType::int32, {1, 4}, {5, 6, 7, 8})},
                            {Tensor(DType::float32, {1, 3, 1}), Tensor(DType::int32, {1, 3})}});
  expect_near(made[0], values(DType::float32, {1, 3, 1}, {2, 4, 0}), 0);
  expect_near(made[1], values(DType::int32, {1, 3}, {6, 8, -1}), 0);
}

Call shares_call(DType dtype, const IndexSizes& s, std::int64_t most) {
  return {Op::attention_shares,
          {},
          {noise(dtype, {s.rows, s.queries, s.heads, s.dim}, 1, -2, 2), noise(dtype, {s.rows, s.keys, s.heads, s.dim}, 2, -2, 2),
           random_choice(s.rows, s.queries, s.keys, most)},
          {Tensor(wide_of(dtype), {s.rows, s.queries, s.keys})}};
}

TEST(AttentionShares, AreThePlainOnes) {
  for (const IndexSizes& s : {IndexSizes{2, 9, 9, 3, 6}, IndexSizes{1, 130, 130, 4, 8}, IndexSizes{1, 3, 3000, 2, 4}}) {
    for (const DType dtype : floating_types()) {
      for (const std::int64_t most : {5, 10000}) hold_to_plain(shares_call(dtype, s, most));
    }
  }
}

TEST(AttentionShares, OfAQueryAddUpToTheNumberOfHeads) {
  const Tensor made = run(shares_call(DType::float32, {2, 40, 40, 5, 8}, 6))[0];
  for (std::int64_t query = 0; query < 80; ++query) {
    double sum = 0;
    for (std::int64_t key = 0; key < 40; ++key) sum += made.at(query * 40 + key);
    EXPECT_NEAR(sum, 5, 1e-5) << query;
  }
}

Call loss_call(DType dtype, std::int64_t rows, std::int64_t queries, std::int64_t keys, std::int64_t most) {
  return {Op::index_loss,
          {},
          {noise(dtype, {rows, queries, keys}, 1, -3, 3), noise(dtype, {rows, queries, keys}, 2, 0.01, 2), random_choice(rows, queries, keys, most)},
          {Tensor(dtype, {rows, queries})}};
}

Call gradient_of_loss(const Call& call) {
  Call back{Op::index_loss_grad, {}, call.operands, {call.operands[0]}};
  back.operands.push_back(noise(call.results[0].dtype, call.results[0].shape, 4));
  return back;
}

TEST(IndexLoss, AndItsGradientAreThePlainOnes) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    for (const std::int64_t most : {2, 7, 1000}) {
      const Call call = loss_call(dtype, 2, 90, 90, most);
      hold_to_plain(call, 1e-6);
      hold_to_plain(gradient_of_loss(call));
    }
  }
}

TEST(IndexLoss, HasAGradientThatIsItsSlope) {
  const Call call = loss_call(DType::float64, 2, 4, 6, 3), back = gradient_of_loss(call);
  hold_to_differences(call, {back.operands.back()}, Op::index_loss_grad, back.operands, {0});
}

// Scores whose softmax gives the shares lose nothing; of others the loss is the divergence, ln(3/2) / 2 + ln(3/4) / 2 here.
TEST(IndexLoss, IsADivergence) {
  const auto loss = [](double first, double second) {
    const Call call{Op::index_loss,
                    {},
                    {values(DType::float64, {1, 1, 3}, {first, second, 99}), values(DType::float64, {1, 1, 3}, {2, 2, 7}),
                     values(DType::int32, {1, 1, 1}, {0b011})},
                    {Tensor(DType::float64, {1, 1})}};
    return run(call)[0].at(0);
  };
  EXPECT_NEAR(loss(1.5, 1.5), 0, 1e-7);
  EXPECT_NEAR(loss(std::log(1.0), std::log(2.0)), 0.5 * std::log(1.5) + 0.5 * std::log(0.75), 1e-7);
}

}  // namespace
}  // namespace moesh::backend::test
