// What kernels take on described chips, beside figures worked out by hand.
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
  EXPECT_DOUBLE_EQ(experts_read(2, 4), 1.75);  // 1 in a quarter of the cases, else 2
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

TEST(KernelSeconds, AreTheLongerOfArithmeticAndMemory) {
  const mesh::Chip v5p = mesh::load_builtin_chip("v5p");
  Work product{"einsum", KernelKind::product, DType::bfloat16, 4.59e14, 1e9, 4096, 4096, 4096};
  EXPECT_DOUBLE_EQ(kernel_seconds(product, v5p), kBetween + 1 / 0.8);
  product.dtype = DType::float32;
  EXPECT_DOUBLE_EQ(kernel_seconds(product, v5p), kBetween + 6 / 0.8);
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

}  // namespace
}  // namespace moesh::cost
