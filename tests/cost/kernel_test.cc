// Compares the predicted work and times of kernels on described chips with figures worked out by hand.
#include "cost/kernel.h"

#include <cmath>

#include <gtest/gtest.h>

#include "graph/builder.h"
#include "graph/work.h"
#include "tests/support.h"

namespace moesh::cost {
namespace {

using graph::Builder;
using graph::KernelKind;
using graph::Tensor;
using graph::Work;

constexpr double kBetween = 2e-6;
const mesh::Mesh kOne{{}};

Work work_of_last(const Builder& builder, const mesh::Mesh& mesh = kOne) {
  return graph::work_of({builder.graph(), builder.graph().nodes.back()}, mesh);
}

TEST(WorkOf, AProductMultipliesEveryRowWithEveryColumn) {
  Builder builder;
  const Tensor a = builder.input("a", {4, 8, 16}, DType::bfloat16, {"", "", ""});
  const Tensor b = builder.input("b", {16, 32}, DType::bfloat16, {"", ""});
  graph::einsum("ab", "bsm,mh->bsh", a, b);
  const Work work = work_of_last(builder);
  EXPECT_EQ(work.kind, KernelKind::product);
  EXPECT_EQ(work.dtype, DType::bfloat16);
  EXPECT_EQ(work.flops, 2.0 * 4 * 8 * 16 * 32);
  EXPECT_EQ(work.rows, 32);
  EXPECT_EQ(work.columns, 32);
  EXPECT_EQ(work.depth, 16);
  EXPECT_EQ(work.bytes, 2.0 * (4 * 8 * 16 + 16 * 32 + 4 * 8 * 32));
}

TEST(WorkOf, AnIndexOfBothOperandsAndTheResultIsAProductForEach) {
  Builder builder;
  const Tensor a = builder.input("a", {2, 8, 16}, DType::float32, {"", "", ""});
  const Tensor b = builder.input("b", {2, 16, 32}, DType::float32, {"", "", ""});
  graph::einsum("ab", "esm,emh->esh", a, b);
  const Work work = work_of_last(builder);
  EXPECT_EQ(work.flops, 2.0 * 2 * 8 * 16 * 32);
  EXPECT_EQ(work.rows, 8);
  EXPECT_EQ(work.columns, 32);
  EXPECT_EQ(work.depth, 16);
}

TEST(WorkOf, ADeviceDoesItsShare) {
  Builder builder;
  const Tensor a = builder.input("a", {64, 16}, DType::bfloat16, {"", ""});
  const Tensor b = builder.input("b", {16, 32}, DType::bfloat16, {"", ""});
  graph::einsum("ab", "sm,mh->sh", a, b);
  graph::Graph graph = builder.take();
  graph.values[0].spec = {{{0}, {}}, {}};
  graph.values[1].spec = {{{}, {1}}, {}};
  graph.values[2].spec = {{{0}, {1}}, {}};
  const mesh::Mesh mesh({{"fsdp", 4, 1}, {"tensor", 2, 1}});
  const Work work = graph::work_of({graph, graph.nodes.back()}, mesh);
  EXPECT_EQ(work.flops, 2.0 * 16 * 16 * 16);
  EXPECT_EQ(work.rows, 16);
  EXPECT_EQ(work.columns, 16);
  EXPECT_EQ(work.bytes, 2.0 * (16 * 16 + 16 * 16 + 16 * 16));
}

TEST(WorkOf, ALookUpReadsWhatItGives) {
  Builder builder;
  const Tensor table = builder.input("table", {1000, 8}, DType::bfloat16, {"", ""});
  const Tensor tokens = builder.input("tokens", {2, 4}, DType::int32, {"", ""});
  builder.add_one(graph::Op::embed, "rows", {table, tokens}, {}, {2, 4, 8}, DType::bfloat16);
  const Work work = work_of_last(builder);
  EXPECT_EQ(work.kind, KernelKind::rows);
  EXPECT_EQ(work.flops, 0);
  EXPECT_EQ(work.bytes, 2.0 * 2 * (2 * 4 * 8) + 4 * 2 * 4);
}

// The cache itself is not read, whatever its size.
TEST(WorkOf, AWriteToACacheReadsTheNewRowsAlone) {
  Builder builder;
  const graph::Tensor cache = builder.input("cache", {2, 64, 4, 8}, DType::bfloat16, {"", "", "", ""});
  const graph::Tensor rows = builder.input("rows", {2, 1, 4, 8}, DType::bfloat16, {"", "", "", ""});
  const graph::Tensor positions = builder.input("positions", {2, 1}, DType::int32, {"", ""});
  graph::cache_write(cache, rows, positions);
  EXPECT_EQ(work_of_last(builder).bytes, 2.0 * (2 * 4 * 8) + 4 * 2);
}

Work work_of_experts(std::int64_t rows, std::int64_t experts) {
  Builder builder;
  const Tensor in = builder.input("rows", {rows, 64}, DType::bfloat16, {"", ""});
  const Tensor weights = builder.input("weights", {experts, 64, 32}, DType::bfloat16, {"", "", ""});
  const Tensor sizes = builder.input("sizes", {experts}, DType::int32, {""});
  builder.add_one(graph::Op::grouped_matmul, "out", {in, weights, sizes}, graph::GroupedMatmulOf{}, {rows, 32}, DType::bfloat16);
  return work_of_last(builder);
}

double experts_read(std::int64_t rows, std::int64_t experts) {
  const auto others = static_cast<double>(2 * rows * (64 + 32) + 4 * experts);
  return (work_of_experts(rows, experts).bytes - others) / (2.0 * 64 * 32);
}

TEST(WorkOf, WeightsAreReadOfTheExpertsThatHaveRows) {
  EXPECT_DOUBLE_EQ(experts_read(1, 256), 1);
  EXPECT_DOUBLE_EQ(experts_read(2, 4), 1.75);  // 1 expert in a quarter of the cases, else 2
  EXPECT_NEAR(experts_read(256, 256), 256 * (1 - std::exp(-1)), 0.3);
  EXPECT_NEAR(experts_read(4096, 8), 8, 1e-9);
  EXPECT_DOUBLE_EQ(experts_read(0, 8), 0);
  EXPECT_DOUBLE_EQ(experts_read(5, 1), 1);
  EXPECT_DOUBLE_EQ(work_of_experts(1, 256).rows, 1);
  EXPECT_NEAR(work_of_experts(4096, 8).rows, 512, 1e-9);
  EXPECT_EQ(work_of_experts(0, 8).rows, 0);
  EXPECT_EQ(work_of_experts(3, 8).flops, 2.0 * 3 * 64 * 32);
}

TEST(WorkOf, BiasesAreReadOfTheExpertsThatHaveRows) {
  Builder builder;
  const Tensor in = builder.input("rows", {1, 64}, DType::float32, {"", ""});
  const Tensor bias = builder.input("bias", {16, 64}, DType::float32, {"", ""});
  const Tensor sizes = builder.input("sizes", {16}, DType::int32, {""});
  builder.add_one(graph::Op::grouped_bias, "out", {in, bias, sizes}, {}, {1, 64}, DType::float32);
  EXPECT_DOUBLE_EQ(work_of_last(builder).bytes, 4.0 * (3 * 64 + 16));
}

struct AttentionSizes {
  std::int64_t queries, keys, heads, key_heads;
  std::int64_t width = 12, value_width = 8;
};

Work work_of_attention(const AttentionSizes& s, const graph::AttentionOf& of, bool backward = false) {
  Builder builder;
  const auto input = [&](const std::string& name, Shape shape, DType dtype) {
    const Labels labels(shape.size(), "");
    return builder.input(name, std::move(shape), dtype, labels);
  };
  const Tensor query = input("query", {1, s.queries, s.heads, s.width}, DType::bfloat16);
  const Tensor key = input("key", {1, s.keys, s.key_heads, s.width}, DType::bfloat16);
  const Tensor value = input("value", {1, s.keys, s.key_heads, s.value_width}, DType::bfloat16);
  std::vector<Tensor> operands{query, key, value};
  for (const char* name : {"order", "segments"}) operands.push_back(input(name, {1, s.queries}, DType::int32));
  if (s.keys != s.queries) {
    for (const char* name : {"key_order", "key_segments"}) operands.push_back(input(name, {1, s.keys}, DType::int32));
  }
  const Shape out{1, s.queries, s.heads, s.value_width};
  if (!backward) {
    builder.add_one(graph::Op::attention, "out", operands, of, out, DType::bfloat16);
  } else {
    operands.push_back(input("cotangent", out, DType::bfloat16));
    builder.add(graph::Op::attention_grad, "grad", operands, of,
                {{query.shape(), DType::bfloat16}, {key.shape(), DType::bfloat16}, {value.shape(), DType::bfloat16}});
  }
  return work_of_last(builder);
}

double pairs_by_hand(std::int64_t length, const graph::AttentionOf& of) {
  double pairs = 0;
  for (std::int64_t query = 0; query < length; ++query) {
    for (std::int64_t key = 0; key <= query; ++key) {
      const bool in_window = of.window == 0 || query - key < of.window;
      const bool in_chunk = of.chunk == 0 || query / of.chunk == key / of.chunk;
      pairs += in_window && in_chunk ? 1 : 0;
    }
  }
  return pairs;
}

const std::vector<graph::AttentionOf> kReaches{{},
                                               {.window = 1},
                                               {.window = 7},
                                               {.window = 37},
                                               {.window = 100},
                                               {.chunk = 8},
                                               {.chunk = 10},
                                               {.chunk = 64},
                                               {.window = 5, .chunk = 16}};

TEST(PairsSeen, AreThoseThatMasksLeave) {
  for (const graph::AttentionOf& of : kReaches) {
    EXPECT_DOUBLE_EQ(graph::pairs_seen(37, of), pairs_by_hand(37, of)) << of.window << " " << of.chunk;
  }
  EXPECT_DOUBLE_EQ(graph::pairs_seen(8, {}, 0.5), 32) << "half of a square";
  EXPECT_DOUBLE_EQ(graph::pairs_seen(8, {.window = 4}, 0.5), 8 * 4 - 0.5 * 4 * 4);
  EXPECT_DOUBLE_EQ(graph::pairs_seen(0, {}), 0);
}

// Shards of a row in order, each with its queries' keys counted one by one.
TEST(PairsSeen, OfTheBusiestShardAreThoseOfItsQueries) {
  for (graph::AttentionOf of : kReaches) {
    of.balanced_over = 1;
    for (const std::int64_t shards : {1, 2, 4, 8}) {
      double most = 0;
      for (std::int64_t end = 64 / shards; end <= 64; end += 64 / shards)
        most = std::max(most, pairs_by_hand(end, of) - pairs_by_hand(end - 64 / shards, of));
      EXPECT_DOUBLE_EQ(graph::busiest_share(of, 64, shards), most * static_cast<double>(shards) / pairs_by_hand(64, of)) << shards;
    }
  }
  EXPECT_EQ(graph::busiest_share({.balanced_over = 8}, 64, 8), 1);
  EXPECT_EQ(graph::busiest_share({.balanced_over = 8}, 64, 4), 1);
  EXPECT_EQ(graph::busiest_share({}, 64, 8), 1) << "all queries see as many keys";
  EXPECT_GT(graph::busiest_share({.balanced_over = 2}, 64, 8), 1.8);
}

// The number of multiplications does not depend on the number of key heads: one for all query heads, some, or one for each.
TEST(WorkOf, AttentionMultipliesForEachQueryHeadAndTheKeysThatItSees) {
  for (const graph::AttentionOf& of : kReaches) {
    for (const std::int64_t key_heads : {1, 2, 6}) {
      const double pairs = 6 * pairs_by_hand(37, of);
      EXPECT_NEAR(work_of_attention({37, 37, 6, key_heads}, of).flops, 2 * pairs * (12 + 8), 1e-6) << key_heads << " " << of.window;
      EXPECT_NEAR(work_of_attention({37, 37, 6, key_heads}, of, true).flops, 2 * pairs * (3 * 12 + 2 * 8), 1e-6) << key_heads;
      EXPECT_NEAR(work_of_attention({1, 50, 6, key_heads}, {}).flops, 2 * 6 * 50 * (12 + 8), 1e-6) << key_heads;
    }
  }
}

TEST(WorkOf, AttentionReadsTheKeysInReach) {
  const auto keys_read = [](std::int64_t queries, const graph::AttentionOf& of) {
    const double others = 2.0 * static_cast<double>(queries * 6 * (12 + 8)) + 4.0 * 2 * static_cast<double>(queries + 64);
    return (work_of_attention({queries, 64, 6, 2}, of).bytes - others) / (2.0 * 2 * (12 + 8));
  };
  EXPECT_DOUBLE_EQ(keys_read(1, {}), 64);
  EXPECT_DOUBLE_EQ(keys_read(1, {.window = 16}), 16);
  EXPECT_DOUBLE_EQ(keys_read(4, {.window = 16}), 4) << "a prompt";
  EXPECT_DOUBLE_EQ(keys_read(60, {.window = 16}), 60);
  EXPECT_DOUBLE_EQ(keys_read(1, {.chunk = 8}), 8);
  EXPECT_DOUBLE_EQ(keys_read(1, {.window = 200}), 64);
}

TEST(WorkOf, ASliceReadsWhatItGives) {
  Builder builder;
  const Tensor all = builder.input("all", {64, 100}, DType::float32, {"", ""});
  graph::slice(all, 1, 10, 5);
  EXPECT_EQ(work_of_last(builder).bytes, 4.0 * 2 * 64 * 5);
}

TEST(WorkOf, AnOperandThatStandsTwiceIsReadOnce) {
  Builder builder;
  const Tensor x = builder.input("x", {64, 100}, DType::float32, {"", ""});
  builder.add_one(graph::Op::row_dot, "squares", {x, x}, {}, {64}, DType::float32);
  EXPECT_EQ(work_of_last(builder).bytes, 4.0 * (64 * 100 + 64));
}

TEST(KernelSeconds, AreTheLongerOfArithmeticAndMemory) {
  mesh::Chip v5p = mesh::load_builtin_chip("v5p");
  Work product{"einsum", KernelKind::product, DType::bfloat16, 4.59e14, 1e9, 4096, 4096, 4096};
  EXPECT_DOUBLE_EQ(kernel_seconds(product, v5p), kBetween + 1 / 0.8);
  product.dtype = DType::float32;
  for (const auto& [precision, passes] : {std::pair{mesh::Precision::lowest, 1}, {mesh::Precision::high, 3}, {mesh::Precision::highest, 6}}) {
    v5p.precision = precision;
    EXPECT_DOUBLE_EQ(kernel_seconds(product, v5p), kBetween + passes / 0.8);
  }
  const Work copy{"copy", KernelKind::elementwise, DType::bfloat16, 0, 2.765e12, 0, 0, 0};
  EXPECT_DOUBLE_EQ(kernel_seconds(copy, v5p), kBetween + 1 / 0.85);
  EXPECT_GT(kernel_seconds({"fetch_rows", KernelKind::rows, DType::bfloat16, 0, 2.765e12, 0, 0, 0}, v5p), kernel_seconds(copy, v5p));
}

// 130 columns take as long as 256, and 8 rows as long as 128.
TEST(KernelSeconds, AMatrixThatEndsWithinATileTakesAllOfIt) {
  const mesh::Chip v5p = mesh::load_builtin_chip("v5p");
  const auto seconds = [&](double rows, double columns) {
    return kernel_seconds({"einsum", KernelKind::product, DType::bfloat16, 2 * rows * columns * 4096, 0, rows, columns, 4096},
                          v5p);
  };
  EXPECT_DOUBLE_EQ(seconds(4096, 130), seconds(4096, 256));
  EXPECT_DOUBLE_EQ(seconds(8, 4096), seconds(128, 4096));
  EXPECT_LT(seconds(128, 4096), seconds(129, 4096));
}

// No kernel is faster than the chip's peaks.
TEST(KernelSeconds, StayBelowTheRoofline) {
  for (const std::string& name : mesh::hardware_names()) {
    const mesh::Chip chip = mesh::load_builtin_chip(name);
    for (const KernelKind kind :
         {KernelKind::product, KernelKind::attention, KernelKind::elementwise, KernelKind::norm, KernelKind::rows}) {
      const Work work{"any", kind, DType::bfloat16, 1e12, 1e9, 512, 512, 512};
      const double seconds = kernel_seconds(work, chip);
      EXPECT_GT(seconds, work.flops / flops_per_second(chip, work.dtype)) << name;
      EXPECT_GT(seconds, work.bytes / chip.memory_bytes_per_second) << name;
    }
  }
}

// A matrix unit would be all but empty.
TEST(KernelSeconds, OfAMatrixAndAVectorAreThoseOfVectorUnits) {
  mesh::Chip chip;
  chip.bf16_flops_per_second = 1e15;
  chip.memory_bytes_per_second = 1e12;
  chip.matrix_tile = 128;
  const Work thin{"einsum", KernelKind::product, DType::bfloat16, 1e12, 0, 1, 1, 4096};
  EXPECT_NEAR(kernel_seconds(thin, chip) - kBetween, 1e12 / (1e15 / 32), 1e-9);
}

TEST(KernelSeconds, OfRoundedProductsReachAShareOfTheirOwn) {
  mesh::Chip chip;
  chip.bf16_flops_per_second = chip.fp8_flops_per_second = 1e15;
  chip.memory_bytes_per_second = 1e12;
  chip.bf16_reached = 0.8;
  chip.fp8_reached = 0.4;
  Work work{"einsum", KernelKind::product, DType::bfloat16, 1e12, 0, 4096, 4096, 4096};
  const double plain = kernel_seconds(work, chip) - kBetween;
  work.rounded = graph::Rounded::float8;
  EXPECT_NEAR((kernel_seconds(work, chip) - kBetween) / plain, 2, 1e-9);
}

}  // namespace
}  // namespace moesh::cost
