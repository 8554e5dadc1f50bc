#include <cmath>

#include "base/bfloat16.h"
#include "graph/chosen_keys.h"
#include "tests/backend/cpu/kernel_support.h"
#include "tests/support.h"

namespace moesh::backend::test {
namespace {

using graph::AttentionOf;

struct Sizes {
  std::int64_t rows = 2, queries = 70, heads = 4, key_heads = 2, dim = 16, value_dim = 12;
};

// Positions and segments of packed rows: positions restart with each segment, and segment 0 is the padding at the end.
Tensors tokens_of(std::int64_t rows, std::int64_t length) {
  Tensor positions(DType::int32, {rows, length}), segments(DType::int32, {rows, length});
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t begin = 0;
    for (std::int64_t i = 0; i < length; ++i) {
      const std::int64_t segment = i < length / 3 + row ? 1 : i < length - 5 ? 2 : 0;
      if (i > 0 && segments.at(row * length + i - 1) != static_cast<double>(segment)) begin = i;
      positions.set(row * length + i, static_cast<double>(i - begin));
      segments.set(row * length + i, static_cast<double>(segment));
    }
  }
  return {positions, segments};
}

Call call_of(DType dtype, const Sizes& s, const AttentionOf& of, bool sinks) {
  Call call{Op::attention, of, {}, {Tensor(dtype, {s.rows, s.queries, s.heads, s.value_dim}), Tensor(DType::float32, {s.rows, s.queries, s.heads})}};
  call.operands = {noise(dtype, {s.rows, s.queries, s.heads, s.dim}, 1), noise(dtype, {s.rows, s.queries, s.key_heads, s.dim}, 2),
                   noise(dtype, {s.rows, s.queries, s.key_heads, s.value_dim}, 3)};
  for (const Tensor& tokens : tokens_of(s.rows, s.queries)) call.operands.push_back(tokens);
  if (sinks) call.operands.push_back(noise(dtype, {s.heads}, 4));
  return call;
}

// The same call, of which each query sees some keys alone. Columns of a panel see different ones, and some queries see none.
Call sparse(Call call) {
  auto of = std::get<AttentionOf>(call.attributes);
  of.is_sparse = true;
  const bool has_key_tokens = call.operands.size() >= 7;
  const Shape &q = call.operands[0].shape, &k = call.operands[1].shape;
  Tensor chosen = draws({q[0], q[1], graph::words_of_keys(of.pools > 0 ? of.pools : k[1])}, 5, 1u << 31);
  for (std::int64_t i = 0; i < chosen.count(); i += 3) chosen.set(i, 0);
  call.attributes = of;
  call.operands.insert(call.operands.begin() + (has_key_tokens ? 7 : 5), chosen);
  call.results.resize(1, Tensor(DType::float32, {}));  // the highest score of no key is that of none
  return call;
}

// The same call with pools behind its keys: of each so many tokens, of one segment or of none.
Call with_pools(Call call, std::int64_t tokens) {
  auto of = std::get<AttentionOf>(call.attributes);
  const Shape key = call.operands[1].shape;
  const std::int64_t rows = key[0], length = key[1], pools = length / tokens, all = length + pools;
  of.pools = pools;
  for (const std::size_t i : {1u, 2u}) {
    Shape shape = call.operands[i].shape;
    shape[1] = all;
    call.operands[i] = noise(call.operands[i].dtype, shape, 10 + static_cast<int>(i));
  }
  Tensor order(DType::int32, {rows, all}), segments(DType::int32, {rows, all});
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t t = 0; t < all; ++t) {
      const std::int64_t from = row * length + (t < length ? t : (t - length) * tokens);
      const bool has_several = t >= length && call.operands[4].at(from) != call.operands[4].at(from + tokens - 1);
      order.set(row * all + t, call.operands[3].at(from) + static_cast<double>(t < length ? 0 : tokens - 1));
      segments.set(row * all + t, has_several ? -1 : call.operands[4].at(from));
    }
  }
  call.attributes = of;
  call.operands.insert(call.operands.begin() + 5, {order, segments});
  return call;
}

Call gradient_of(const Call& call) {
  Call back{Op::attention_grad, call.attributes, call.operands, {call.operands[0], call.operands[1], call.operands[2]}};
  const bool is_sparse = std::get<AttentionOf>(call.attributes).is_sparse;
  if ((call.operands.size() - (is_sparse ? 1 : 0)) % 2 == 0) back.results.push_back(call.operands.back());
  back.operands.push_back(noise(call.results[0].dtype, call.results[0].shape, 9));
  return back;
}

std::vector<AttentionOf> kinds() {
  return {{},
          {.window = 7, .score_scale = 0.3},
          {.score_scale = 0.5, .soft_cap = 2},
          {.window = 13, .soft_cap = 5},
          {.chunk = 5},
          {.window = 3, .chunk = 16, .soft_cap = 2},
          {.soft_cap = 3, .float32_softmax = true},
          {.float32_softmax = true}};
}

TEST(Attention, IsThePlainOne) {
  for (const AttentionOf& of : kinds()) {
    for (const bool sinks : {false, true}) {
      for (const DType dtype : floating_types()) hold_to_plain(call_of(dtype, {}, of, sinks));
    }
  }
}

TEST(Attention, GradientsAreThePlainOnes) {
  for (const AttentionOf& of : kinds()) {
    for (const bool sinks : {false, true}) {
      // Gradients of probabilities cancel, so rounding to bfloat16 weighs more and the tolerance is wider.
      for (const DType dtype : floating_types()) {
        hold_to_plain(gradient_of(call_of(dtype, {}, of, sinks)), dtype == DType::bfloat16 ? 0.02 : 0);
      }
    }
  }
}

TEST(Attention, OfChosenKeysAndItsGradientsAreThePlainOnes) {
  for (const AttentionOf& of : kinds()) {
    for (const bool sinks : {false, true}) {
      for (const DType dtype : floating_types()) {
        const Call call = sparse(call_of(dtype, {.queries = 300}, of, sinks));
        hold_to_plain(call);
        hold_to_plain(gradient_of(call), dtype == DType::bfloat16 ? 0.02 : 0);
      }
    }
  }
}

TEST(Attention, OfPoolsAndItsGradientsAreThePlainOnes) {
  for (const AttentionOf& of : kinds()) {
    if (of.chunk > 0) continue;
    for (const auto& [queries, tokens] : std::vector<std::pair<std::int64_t, std::int64_t>>{{70, 4}, {500, 4}, {300, 33}, {40, 50}}) {
      for (const DType dtype : floating_types()) {
        const Call call = with_pools(call_of(dtype, {.queries = queries}, of, true), tokens);
        for (const Call& each : {call, sparse(call)}) {
          hold_to_plain(each);
          hold_to_plain(gradient_of(each), dtype == DType::bfloat16 ? 0.02 : 0);
        }
      }
    }
  }
}

// New tokens of rows whose earlier ones are cached: the nearest keys at slots that wrap, and pools by place. Pools behind the queries say
// of themselves that they are seen.
Call of_cached_pools(DType dtype, std::int64_t queries, std::int64_t heads, std::int64_t tokens_of_pool, bool are_numbers = true) {
  constexpr std::int64_t kRows = 2, kSlots = 24, kPools = 300, kDim = 16;
  constexpr std::int64_t kFirst[kRows] = {700, 5};  // positions
  const Shape keys{kRows, kSlots + kPools, 1, kDim}, tokens{kRows, kSlots + kPools};
  AttentionOf of{.window = 9, .score_scale = 0.3};
  of.pools = kPools;
  of.tokens_of_pool = tokens_of_pool;
  Tensor key = noise(dtype, keys, 2), order(DType::int32, tokens), segments = filled(DType::int32, tokens, 1);
  Tensor query_order(DType::int32, {kRows, queries});
  for (std::int64_t row = 0; row < kRows; ++row) {
    const std::int64_t last = kFirst[row] + queries - 1;
    for (std::int64_t i = 0; i < queries; ++i) query_order.set(row * queries + i, static_cast<double>(kFirst[row] + i));
    for (std::int64_t position = std::max<std::int64_t>(0, last - kSlots + 1); position <= last; ++position)
      order.set(row * (kSlots + kPools) + position % kSlots, static_cast<double>(position));
    for (std::int64_t slot = last + 1; slot < kSlots; ++slot) segments.set(row * (kSlots + kPools) + slot, 0);
    for (std::int64_t pool = 0; pool < kPools; ++pool) {
      const std::int64_t at = row * (kSlots + kPools) + kSlots + pool, end = (pool + 1) * tokens_of_pool - 1;
      order.set(at, static_cast<double>(end <= last ? end : 0));
      for (std::int64_t i = at * kDim; !are_numbers && end > last && i < (at + 1) * kDim; ++i)
        key.set(i, std::numeric_limits<double>::quiet_NaN());
    }
  }
  return {Op::attention,
          of,
          {noise(dtype, {kRows, queries, heads, kDim}, 1), key, key, query_order, filled(DType::int32, {kRows, queries}, 1), order,
           segments, noise(dtype, {heads}, 4)},
          {Tensor(dtype, {kRows, queries, heads, kDim})}};
}

TEST(Attention, OfCachedPoolsIsThePlainOneAndDoesNotLookBehindTheQueries) {
  for (const DType dtype : floating_types()) {
    for (const std::int64_t heads : {1, 8, 40}) {
      for (const std::int64_t tokens : {4, 7, 128}) {
        for (const std::int64_t queries : {1, 3, 12}) {
          const Call call = of_cached_pools(dtype, queries, heads, tokens);
          hold_to_plain(call);
          hold_to_plain(sparse(call));
          EXPECT_EQ(run(of_cached_pools(dtype, queries, heads, tokens, false))[0].bytes, run(call)[0].bytes);
        }
      }
    }
  }
}

TEST(Attention, OfWideHeadsAndItsGradientsAreThePlainOnes) {
  for (const DType dtype : floating_types()) {
    const Call call = call_of(dtype, {1, 40, 2, 1, 80, 40}, {}, false);
    hold_to_plain(call);
    hold_to_plain(gradient_of(call), dtype == DType::bfloat16 ? 0.02 : 0);
  }
}

// Keys are read in place if a cache holds them; of keys that lie a power of two apart, as here, it holds few.
TEST(Attention, OfManyHeadsAndItsGradientsAreThePlainOnes) {
  const Sizes sizes{.rows = 1, .queries = 240, .heads = 64, .key_heads = 64, .dim = 32, .value_dim = 32};
  for (const DType dtype : floating_types()) {
    const Call call = call_of(dtype, sizes, {}, false);
    hold_to_plain(call);
    hold_to_plain(gradient_of(call), dtype == DType::bfloat16 ? 0.02 : 0);
  }
}

TEST(Attention, DoesNotSeeWhatMemoryHolds) {
  for (const AttentionOf& of : kinds()) {
    for (const DType dtype : floating_types()) {
      const Call call = call_of(dtype, {}, of, true);
      expect_not_to_see_what_memory_holds(call);
      expect_not_to_see_what_memory_holds(gradient_of(call));
    }
  }
}

TEST(Attention, IsThePlainOneOverManyKeysAndForEveryWayToShareThem) {
  for (const auto& [heads, key_heads] : std::vector<std::pair<std::int64_t, std::int64_t>>{{3, 3}, {6, 1}, {4, 2}}) {
    const Sizes sizes{1, 600, heads, key_heads, 8, 8};
    hold_to_plain(call_of(DType::float32, sizes, {}, false));
    hold_to_plain(gradient_of(call_of(DType::float32, sizes, {}, false)));
  }
}

TEST(Attention, GradientsAreItsSlopes) {
  const Sizes small{2, 9, 4, 2, 3, 2};
  for (const AttentionOf& of : kinds()) {
    for (const bool sinks : {false, true}) {
      const Call call = call_of(DType::float64, small, of, sinks);
      const Call back = gradient_of(call);
      std::vector<std::size_t> wanted{0, 1, 2};
      if (sinks) wanted.push_back(5);
      hold_to_differences(call, {back.operands.back()}, Op::attention_grad, back.operands, wanted);
    }
  }
}

// The share of bfloat16 results that equal the float32 results of the same numbers, rounded to bfloat16.
double share_of_exact(const AttentionOf& of) {
  const Call call = call_of(DType::bfloat16, {}, of, true);
  Call exact = call_of(DType::float32, {}, of, true);
  for (const std::size_t i : {0, 1, 2, 5}) {
    for (std::int64_t k = 0; k < elements(exact.operands[i].shape); ++k)
      exact.operands[i].set(k, call.operands[i].at(k));
  }
  const Tensor made = run(call)[0];
  const Tensor expected = run(exact)[0];
  double same = 0;
  for (std::int64_t k = 0; k < elements(made.shape); ++k) {
    const auto rounded = static_cast<float>(bfloat16(static_cast<float>(expected.at(k))));
    same += made.at(k) == static_cast<double>(rounded) ? 1 : 0;
  }
  return same / static_cast<double>(elements(made.shape));
}

// Unless float32_softmax is set, exponentials are rounded to bfloat16, and nothing before them.
TEST(Attention, IsRoundedInBfloat16WhereItIsNotAskedToBeFloat32) {
  const double rounded = share_of_exact({.score_scale = 0.1}), wide = share_of_exact({.score_scale = 0.1, .float32_softmax = true});
  EXPECT_LT(rounded, wide - 0.01);
  EXPECT_GT(wide, 0.99);
}

// Context parallelism: a device has the keys of all positions but only some of the queries, in any order. These have the same bits as in
// attention over all queries, unless there is a single query per row, which adds up in another order.
TEST(Attention, OfAShareOfTheQueriesIsThatShareOfAll) {
  const Sizes s{1, 600, 2, 1, 8, 8};
  for (const bool sinks : {false, true}) {
    for (const DType dtype : {DType::float32, DType::bfloat16}) {
      const Call whole = call_of(dtype, s, {40, 1, 0}, sinks);
      const Tensors all = run(whole);
      const std::vector<std::int64_t> chosen{599, 3, 4, 300, 301, 0, 210};
      const auto count = static_cast<std::int64_t>(chosen.size());
      const auto pick = [&](const Tensor& from) {
        Shape shape = from.shape;
        shape[1] = count;
        Tensor made(from.dtype, shape);
        const std::size_t bytes = from.bytes.size() / static_cast<std::size_t>(s.queries);
        for (std::size_t i = 0; i < chosen.size(); ++i) {
          std::memcpy(made.bytes.data() + i * bytes, from.bytes.data() + static_cast<std::size_t>(chosen[i]) * bytes, bytes);
        }
        return made;
      };
      Call part = whole;
      part.operands = {pick(whole.operands[0]), whole.operands[1], whole.operands[2], pick(whole.operands[3]), pick(whole.operands[4]),
                       whole.operands[3], whole.operands[4]};
      if (sinks) part.operands.push_back(whole.operands.back());
      part.results = {pick(all[0]), pick(all[1])};
      const Tensors made = run(part);
      EXPECT_EQ(made[0].bytes, pick(all[0]).bytes);
      EXPECT_EQ(made[1].bytes, pick(all[1]).bytes);
      hold_to_plain(part);
      hold_to_plain(gradient_of(part), dtype == DType::bfloat16 ? 0.02 : 0);
    }
  }
}

// Queries in a segment that no key has: one among others, and all of a row, so that a whole panel has nothing to see.
TEST(Attention, OfAQueryThatSeesNoKeyIsZeroAndItsGradientsToo) {
  for (const AttentionOf& of : kinds()) {
    for (const bool sinks : {false, true}) {
      for (const DType dtype : floating_types()) {
        const Sizes s;
        Call call = call_of(dtype, s, of, sinks);
        Tensor segments = call.operands[4];
        segments.set(20, 9);
        for (std::int64_t i = 0; i < s.queries; ++i) segments.set(s.queries + i, 9);
        call.operands.insert(call.operands.begin() + 5, {call.operands[3], call.operands[4]});
        call.operands[4] = segments;
        call.results.pop_back();  // the highest score of no key is that of none
        hold_to_plain(call);
        const Call back = gradient_of(call);
        hold_to_plain(back, dtype == DType::bfloat16 ? 0.02 : 0);
        const Tensor made = run(call)[0], dquery = run(back)[0];
        for (std::int64_t i = 0; i < s.heads * s.value_dim; ++i) EXPECT_EQ(made.at(20 * s.heads * s.value_dim + i), 0);
        for (std::int64_t i = 0; i < s.heads * s.dim; ++i) EXPECT_EQ(dquery.at(20 * s.heads * s.dim + i), 0);
        for (std::int64_t i = s.queries * s.heads * s.value_dim; i < made.count(); ++i) ASSERT_EQ(made.at(i), 0);
        for (std::int64_t i = s.queries * s.heads * s.dim; i < dquery.count(); ++i) ASSERT_EQ(dquery.at(i), 0);
      }
    }
  }
}

// A decode step: one query per row, at a position of its own among keys of two blocks, with few and with more query heads per key head.
TEST(Attention, OfAStepIsThePlainOne) {
  for (const std::int64_t sharing : {1, 2, 5, 8, 9}) {
    const Sizes s{3, 300, 2 * sharing, 2, 24, 20};
    for (const AttentionOf& of : kinds()) {
      for (const bool sinks : {false, true}) {
        for (const DType dtype : floating_types()) {
          Call step = call_of(dtype, s, of, sinks);
          const Tensor order = step.operands[3], segments = step.operands[4];
          step.operands[0] = noise(dtype, {s.rows, 1, s.heads, s.dim}, 1);
          step.results = {Tensor(dtype, {s.rows, 1, s.heads, s.value_dim}), Tensor(DType::float32, {s.rows, 1, s.heads})};
          Tensor places(DType::int32, {s.rows, 1}), own_segments(DType::int32, {s.rows, 1});
          for (std::int64_t row = 0; row < s.rows; ++row) {
            const std::int64_t place = row * s.queries + (row == 0 ? 290 : row == 1 ? 130 : 0);
            places.set(row, order.at(place));
            own_segments.set(row, segments.at(place));
          }
          step.operands[3] = places;
          step.operands[4] = own_segments;
          step.operands.insert(step.operands.begin() + 5, {order, segments});
          hold_to_plain(step);
        }
      }
    }
  }
}

constexpr std::int64_t kSlots = 300;
constexpr std::int64_t kFilled[] = {2, 130, 300};  // slots of each row that have a token

// The newest tokens of rows that fill a cache in part. The last two of many queries are padding, which sees itself at most.
Call call_on_cache(DType dtype, AttentionOf of, std::int64_t queries, bool sinks) {
  constexpr std::int64_t kFree = -1, kPadding = 9;
  Call call = call_of(dtype, {3, kSlots, 4, 2, 24, 20}, of, sinks);
  of.keys_by_place = true;
  call.attributes = of;
  Tensor places(DType::int32, {3, queries}), segments(DType::int32, {3, queries}), order(DType::int32, {3, kSlots}),
      own(DType::int32, {3, kSlots});
  for (std::int64_t row = 0; row < 3; ++row) {
    for (std::int64_t slot = 0; slot < kSlots; ++slot) {
      order.set(row * kSlots + slot, slot < kFilled[row] ? static_cast<double>(slot) : 0);
      own.set(row * kSlots + slot, slot < kFilled[row] ? 1 : kFree);
    }
    for (std::int64_t i = 0; i < queries; ++i) {
      const bool is_padding = queries > 2 && i >= queries - 2;
      places.set(row * queries + i, static_cast<double>(is_padding ? kFilled[row] : std::max<std::int64_t>(0, kFilled[row] - queries + i)));
      segments.set(row * queries + i, is_padding ? kPadding : 1);
    }
  }
  call.operands[0] = noise(dtype, {3, queries, 4, 24}, 1);
  call.operands[3] = places;
  call.operands[4] = segments;
  call.operands.insert(call.operands.begin() + 5, {order, own});
  call.results = {Tensor(dtype, {3, queries, 4, 20})};
  return call;
}

TEST(Attention, OfACacheIsThePlainOne) {
  for (const AttentionOf& of : kinds()) {
    for (const std::int64_t queries : {1, 12}) {
      for (const DType dtype : floating_types()) {
        const Call call = call_on_cache(dtype, of, queries, queries == 1);
        hold_to_plain(call);
        hold_to_plain(sparse(call));
      }
    }
  }
}

// Free slots, which may be most of a cache, do not even have their segments read: here these say that the slots hold the row's own tokens.
TEST(Attention, DoesNotLookAtSlotsBehindItsQueries) {
  for (const std::int64_t queries : {1, 7, 40}) {
    Call call = call_on_cache(DType::float32, {}, queries, false);
    const Tensors before = run(call);
    for (std::int64_t row = 0; row < 3; ++row) {
      for (std::int64_t slot = kFilled[row] + 1; slot < kSlots; ++slot) call.operands[6].set(row * kSlots + slot, 1);
    }
    EXPECT_EQ(run(call)[0].bytes, before[0].bytes) << queries;
  }
}

TEST(Attention, IsTheSameWhetherScoresAreAskedForOrNot) {
  for (const DType dtype : floating_types()) {
    Call call = call_of(dtype, {}, {}, false);
    const Tensor with = run(call)[0];
    call.results.pop_back();
    EXPECT_EQ(run(call)[0].bytes, with.bytes);
  }
}

// Two query heads of one key head: the first query sees one key, the second both.
TEST(Attention, TellsTheHighestScoreThatAQuerySees) {
  const Tensor query = values(DType::float32, {1, 2, 2, 1}, {1, -2, 3, -4}), key = values(DType::float32, {1, 2, 1, 1}, {5, 7});
  const Tensor order = values(DType::int32, {1, 2}, {0, 1}), segments = values(DType::int32, {1, 2}, {1, 1});
  const Call call{Op::attention, AttentionOf{.score_scale = 0.5}, {query, key, key, order, segments},
                  {Tensor(DType::float32, {1, 2, 2, 1}), Tensor(DType::float32, {1, 2, 2})}};
  expect_near(run(call)[1], values(DType::float32, {1, 2, 2}, {2.5, -5, 10.5, -10}), 1e-6);
}

TEST(Highest, IsThePlainOneForAnyPieces) {
  for (const DType dtype : floating_types()) {
    const Tensor x = noise(dtype, {6, 8, 70}, 1, -9, -1);
    for (const std::int64_t a : {1, 3, 6}) {
      for (const std::int64_t b : {1, 2, 8}) hold_to_plain({Op::highest, {}, {x}, {Tensor(dtype, {a, b, 70})}});
    }
  }
}

TEST(Highest, IsOfEachPiece) {
  const Tensor x = values(DType::float32, {2, 2, 2}, {1, -8, 3, -6, 2, -5, 0, -7});
  const auto highest = [&](const Shape& pieces) { return run({Op::highest, {}, {x}, {Tensor(DType::float32, pieces)}})[0]; };
  expect_near(highest({1, 1, 2}), values(DType::float32, {1, 1, 2}, {3, -5}), 0);
  expect_near(highest({2, 1, 2}), values(DType::float32, {2, 1, 2}, {3, -6, 2, -5}), 0);
  expect_near(highest({1, 2, 2}), values(DType::float32, {1, 2, 2}, {2, -5, 3, -6}), 0);
}

TEST(Attention, OfTheFirstTokenIsItsValue) {
  const Call call = call_of(DType::float32, {}, {}, false);
  const Tensor made = run(call)[0];
  for (std::int64_t head = 0; head < 4; ++head) {
    for (std::int64_t i = 0; i < 12; ++i) EXPECT_FLOAT_EQ(static_cast<float>(made.at(head * 12 + i)), static_cast<float>(call.operands[2].at(head / 2 * 12 + i)));
  }
}

TEST(Attention, DoesNotReadSegmentsOfOthers) {
  Call call = call_of(DType::float32, {}, {}, false);
  const Tensors before = run(call);
  const std::int64_t size = 2 * 16;
  for (std::int64_t i = 0; i < 10 * size; ++i) call.operands[1].set(i, 5);  // keys of row 0's first segment
  const Tensors after = run(call);
  const std::size_t from = 23 * 4 * 12 * sizeof(float);  // its second segment begins at 70 / 3
  EXPECT_EQ(0, std::memcmp(before[0].bytes.data() + from, after[0].bytes.data() + from, before[0].bytes.size() - from));
  EXPECT_NE(before[0].bytes, after[0].bytes);
}

TEST(Attention, RefusesHeadsThatDoNotShare) {
  Sizes sizes;
  sizes.heads = 3;
  sizes.key_heads = 2;
  EXPECT_EQ(moesh::test::message_of([&] { run(call_of(DType::float32, sizes, {0, 1, 0}, false)); }),
            "attention: 3 heads of queries share 2 of keys on one device\n  fix: shard the heads of queries and keys alike");
  sizes.heads = sizes.key_heads = 0;
  EXPECT_EQ(run(call_of(DType::float32, sizes, {0, 1, 0}, false))[0].count(), 0) << "a device may have no heads";
}

}  // namespace
}  // namespace moesh::backend::test
