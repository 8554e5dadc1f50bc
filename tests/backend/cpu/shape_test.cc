#include "tests/backend/cpu/kernel_support.h"
#include "tests/support.h"

namespace moesh::backend::test {
namespace {

using moesh::test::message_of;

const std::vector<DType>& all_types() {
  static const std::vector<DType> all{DType::float32, DType::bfloat16, DType::float64, DType::int32};
  return all;
}

Tensor numbered(DType dtype, Shape shape) { return draws(shape, 5, 200).dtype == dtype ? draws(shape, 5, 200) : noise(dtype, shape, 5); }

TEST(Shape, TransposesAreThePlainOnes) {
  const std::vector<std::pair<Shape, std::vector<int>>> cases{
      {{37, 130}, {1, 0}}, {{3, 40, 50}, {0, 2, 1}}, {{3, 40, 50}, {2, 0, 1}}, {{2, 3, 4, 5}, {3, 1, 0, 2}},
      {{4, 70, 6, 8}, {0, 2, 1, 3}}, {{1, 9, 1, 7}, {2, 3, 0, 1}}, {{5}, {0}}, {{64, 1, 33}, {2, 1, 0}},
  };
  for (const auto& [shape, order] : cases) {
    Shape out;
    for (const int dim : order) out.push_back(shape[static_cast<std::size_t>(dim)]);
    for (const DType dtype : all_types()) {
      hold_to_plain({Op::transpose, graph::TransposeOf{order}, {numbered(dtype, shape)}, {Tensor(dtype, out)}});
    }
  }
}

TEST(Shape, BroadcastsAreThePlainOnes) {
  const std::vector<std::tuple<Shape, std::vector<int>, Shape>> cases{
      {{6}, {2}, {3, 4, 6}}, {{6}, {0}, {6, 4, 3}}, {{}, {}, {5, 3}}, {{3, 6}, {0, 2}, {3, 500, 6}}, {{4, 5}, {1, 2}, {300, 4, 5}},
      {{6, 3}, {2, 0}, {3, 4, 6}},
  };
  for (const auto& [shape, dims, out] : cases) {
    for (const DType dtype : all_types()) {
      hold_to_plain({Op::broadcast, graph::BroadcastOf{dims}, {numbered(dtype, shape)}, {Tensor(dtype, out)}});
    }
  }
}

TEST(Shape, SumsAreThePlainOnes) {
  const std::vector<std::tuple<Shape, std::vector<int>, Shape>> cases{
      {{30, 70}, {0}, {70}}, {{30, 70}, {1}, {30}}, {{30, 70}, {0, 1}, {}}, {{5, 6, 7, 8}, {0, 2}, {6, 8}}, {{5, 6, 7, 8}, {1, 3}, {5, 7}},
      {{9001, 3}, {0}, {3}}, {{2, 9001}, {1}, {2}}, {{1, 5, 1}, {0, 2}, {5}}, {{1, 1}, {0, 1}, {}}, {{4, 1, 5000}, {0, 1}, {5000}}, {{300, 20, 6}, {0, 2}, {20}},
  };
  for (const auto& [shape, dims, out] : cases) {
    for (const DType dtype : floating_types()) {
      SCOPED_TRACE(to_string(shape));
      hold_to_plain({Op::reduce, graph::ReduceOf{graph::Reduction::sum, dims}, {noise(dtype, shape, 5, -0.2, 1)}, {Tensor(dtype, out)}});
    }
  }
}

TEST(Shape, ASumIsRightToTheLastBitOfFloat32) {
  const Tensor x = filled(DType::float32, {1 << 20}, 0.1);
  const Tensor sum = run({Op::reduce, graph::ReduceOf{graph::Reduction::sum, {0}}, {x}, {Tensor(DType::float32, {})}})[0];
  EXPECT_EQ(sum.at(0), static_cast<double>(static_cast<float>(static_cast<double>(0.1f) * (1 << 20))));
}

TEST(Shape, ASumOfARowDoesNotDependOnTheRowsBesideIt) {
  const Tensor x = noise(DType::float32, {50, 5003}, 1);
  const Tensor all = run({Op::reduce, graph::ReduceOf{graph::Reduction::sum, {1}}, {x}, {Tensor(DType::float32, {50})}})[0];
  Tensor row(DType::float32, {1, 5003});
  for (std::int64_t i = 0; i < 50; ++i) {
    std::memcpy(row.bytes.data(), x.bytes.data() + static_cast<std::size_t>(i) * row.bytes.size(), row.bytes.size());
    EXPECT_EQ(run({Op::reduce, graph::ReduceOf{graph::Reduction::sum, {1}}, {row}, {Tensor(DType::float32, {1})}})[0].at(0), all.at(i));
  }
}

TEST(Shape, SlicesConcatenationsPadsAndReshapesAreThePlainOnes) {
  for (const DType dtype : all_types()) {
    const Tensor x = numbered(dtype, {4, 9, 5});
    for (int dim = 0; dim < 3; ++dim) {
      Shape sliced = x.shape, joined = x.shape, padded = x.shape;
      const auto d = static_cast<std::size_t>(dim);
      sliced[d] = 2;
      joined[d] = x.shape[d] + 2;
      padded[d] = x.shape[d] + 4;
      hold_to_plain({Op::slice, graph::SliceOf{dim, 1, 2}, {x}, {Tensor(dtype, sliced)}});
      hold_to_plain({Op::concat, graph::ConcatOf{dim}, {x, numbered(dtype, sliced)}, {Tensor(dtype, joined)}});
      hold_to_plain({Op::pad, graph::PadOf{dim, 1, 3}, {x}, {Tensor(dtype, padded)}});
    }
  }
}

TEST(Shape, OpsOnNothingDoNothing) {
  const Tensor none(DType::float32, {0, 3});
  EXPECT_EQ(run({Op::transpose, graph::TransposeOf{{1, 0}}, {none}, {Tensor(DType::float32, {3, 0})}})[0].count(), 0);
  EXPECT_EQ(run({Op::slice, graph::SliceOf{1, 0, 1}, {none}, {Tensor(DType::float32, {0, 1})}})[0].count(), 0);
  const Tensor zero = run({Op::reduce, graph::ReduceOf{graph::Reduction::sum, {0}}, {none}, {Tensor(DType::float32, {3})}})[0];
  EXPECT_EQ(zero.at(2), 0);
  EXPECT_EQ(run({Op::pad, graph::PadOf{0, 1, 1}, {none}, {Tensor(DType::float32, {2, 3})}})[0].at(5), 0);
}

TEST(Shape, CachesArePlainlyWritten) {
  const Tensor slots = values(DType::int32, {2, 3}, {4, 0, 2, 1, 2, 6});
  for (const DType dtype : all_types()) {
    for (const Shape& rest : {Shape{}, Shape{5}, Shape{3, 70}}) {
      Shape cache{2, 7}, rows{2, 3};
      cache.insert(cache.end(), rest.begin(), rest.end());
      rows.insert(rows.end(), rest.begin(), rest.end());
      const Call call{
          Op::cache_write, graph::CacheWriteOf{}, {numbered(dtype, cache), numbered(dtype, rows), slots}, {Tensor(dtype, cache)}};
      hold_to_plain(call);
      Call on = call;
      on.attributes = graph::CacheWriteOf{.wraps = true};
      for (std::int64_t i = 0; i < slots.count(); ++i) on.operands[2].set(i, slots.at(i) + static_cast<double>(cache[1]));
      hold_to_plain(on);
      EXPECT_EQ(run(on)[0].bytes, run(call)[0].bytes) << "as many slots on";
    }
  }
}

// Three rows of tokens among the first five slots, and two of pools among the last two.
TEST(Shape, CachesOfTokensAndPoolsArePlainlyWritten) {
  const Tensor slots = values(DType::int32, {2, 3}, {4, 6, 2, 1, graph::kNoSlot, 10});
  const Tensor of_pools = values(DType::int32, {2, 2}, {1, graph::kNoSlot, 0, 1});
  for (const DType dtype : all_types()) {
    const graph::CacheWriteOf of{.wraps = true, .skips = true, .pools = 2};
    const Call call{Op::cache_write,
                    of,
                    {numbered(dtype, {2, 7, 3}), numbered(dtype, {2, 3, 3}), slots, numbered(dtype, {2, 2, 3}), of_pools},
                    {Tensor(dtype, {2, 7, 3})}};
    hold_to_plain(call);
  }
  const Tensor cache = values(DType::float32, {1, 4, 1}, {1, 2, 3, 4});
  const Tensor made = run({Op::cache_write,
                           graph::CacheWriteOf{.wraps = true, .pools = 2},
                           {cache, values(DType::float32, {1, 1, 1}, {10}), values(DType::int32, {1, 1}, {3}),
                            values(DType::float32, {1, 1, 1}, {20}), values(DType::int32, {1, 1}, {0})},
                           {cache}})[0];
  expect_near(made, values(DType::float32, {1, 4, 1}, {1, 10, 20, 4}), 0);
}

TEST(Shape, APoolHasASlotOrNone) {
  const auto written_to = [](double slot, bool skips) {
    const Tensor cache(DType::float32, {1, 3, 1}), row(DType::float32, {1, 1, 1});
    const Tensor first = values(DType::int32, {1, 1}, {0}), of_pool = values(DType::int32, {1, 1}, {slot});
    return message_of([&] {
      run({Op::cache_write, graph::CacheWriteOf{.wraps = true, .skips = skips, .pools = 2}, {cache, row, first, row, of_pool}, {cache}});
    });
  };
  EXPECT_EQ(written_to(1, true), "no error");
  EXPECT_EQ(written_to(-1, true), "no error");
  EXPECT_THAT(written_to(2, true), ::testing::HasSubstr("position 2 has no slot in a cache of 2"));
  EXPECT_THAT(written_to(-1, false), ::testing::HasSubstr("position -1 has no slot in a cache of 2"));
}

TEST(Shape, ACacheIsWrittenWhereItLiesOrBesideIt) {
  const Tensor cache = values(DType::float32, {1, 4, 1}, {1, 2, 3, 4});
  const Tensor rows = values(DType::float32, {1, 2, 1}, {10, 20});
  const Tensor slots = values(DType::int32, {1, 2}, {3, 0});
  const Tensor beside = run({Op::cache_write, graph::CacheWriteOf{}, {cache, rows, slots}, {Tensor(DType::float32, {1, 4, 1})}})[0];
  Workers workers(1);
  const std::vector<View> operands{cache.view(), rows.view(), slots.view()};
  const std::vector<View> results{cache.view()};
  cpu::find_kernel(Op::cache_write)({graph::CacheWriteOf{}, operands, results, workers});
  const std::vector<double> expected{20, 2, 3, 10};
  for (std::int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(beside.at(i), expected[static_cast<std::size_t>(i)]);
    EXPECT_EQ(cache.at(i), expected[static_cast<std::size_t>(i)]);
  }
}

}  // namespace
}  // namespace moesh::backend::test
