// What kernels take on described chips, beside figures worked out by hand.
#include "cost/kernel.h"

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
