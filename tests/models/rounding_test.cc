// Tests of matrix products in low precision: which products these are, what they cost, and that they are planned but not run.
#include "models/rounding.h"

#include <map>
#include <set>

#include <gmock/gmock.h>

#include "cost/kernel.h"
#include "graph/autodiff.h"
#include "graph/print.h"
#include "tests/cli/outcome.h"
#include "tests/support.h"

namespace moesh::models {
namespace {

using graph::Graph;
using graph::Node;
using graph::Rounded;
using ::testing::HasSubstr;

// The last components of the paths of products that are rounded, and of products that are not, in the graph and in all bodies.
struct Products {
  std::set<std::string> rounded, others;
};

void collect(const Graph& graph, Products& products) {
  for (const Node& node : graph.nodes) {
    if (const auto* of = std::get_if<graph::RepeatOf>(&node.attributes)) collect(*of->body, products);
    if (const auto* of = std::get_if<graph::RegionOf>(&node.attributes)) collect(*of->body, products);
    const auto* einsum = std::get_if<graph::EinsumOf>(&node.attributes);
    const auto* grouped = std::get_if<graph::GroupedMatmulOf>(&node.attributes);
    const auto* outer = std::get_if<graph::GroupedOuterOf>(&node.attributes);
    if (einsum == nullptr && grouped == nullptr && outer == nullptr) continue;
    const Rounded rounded = einsum != nullptr ? einsum->rounded : grouped != nullptr ? grouped->rounded : outer->rounded;
    (rounded == Rounded::none ? products.others : products.rounded).insert(node.path.substr(node.path.rfind('/') + 1));
  }
}

Products products_of(const std::string& request) {
  Products products;
  collect(test::session(request).graph, products);
  return products;
}

const std::string kSmall =
    "override_model_config=true base_num_decoder_layers=4 base_emb_dim=64 base_mlp_dim=64 base_moe_mlp_dim=64 vocab_size=128 max_target_length=32 "
    "per_device_batch_size=2 attention=dot_product compile_topology=v6e-8 ";

// The products to which MaxText's layers apply `quant`: the projections of attention, MLPs and experts, but neither the router nor the
// logits.
TEST(Rounding, IsOfTheProductsThatTheReferenceQuantizes) {
  for (const std::string& way : {std::string("sparse_matmul=true "), std::string("sparse_matmul=true use_ring_of_experts=true "), std::string("sparse_matmul=false "),
                                 std::string("sparse_matmul=false capacity_factor=1.25 "), std::string("scan_layers=false ")}) {
    const std::string request = "model_name=mixtral-8x7b ici_expert_parallelism=4 " + kSmall + way;
    const Products plain = products_of(request), rounded = products_of(request + "quantization=fp8");
    EXPECT_TRUE(plain.rounded.empty()) << way;
    for (const char* name : {"query", "key", "value", "out", "wi_0", "wi_1", "wo"}) {
      EXPECT_TRUE(rounded.rounded.contains(name)) << way << name;
      EXPECT_FALSE(rounded.others.contains(name)) << way << name;
    }
    for (const char* name : {"gate", "logits_dense"}) EXPECT_TRUE(rounded.others.contains(name)) << way << name;
    std::set<std::string> all = rounded.rounded;
    all.insert(rounded.others.begin(), rounded.others.end());
    EXPECT_EQ(all, plain.others) << way;
  }
}

TEST(Rounding, IsToTheTypeThatIsAsked) {
  const auto text = [](const std::string& quantization) {
    return graph::to_text(test::session("model_name=llama2-7b " + kSmall + "quantization=" + quantization).graph);
  };
  EXPECT_THAT(text("int8"), HasSubstr("rounded=int8"));
  EXPECT_THAT(text("fp8"), HasSubstr("rounded=float8"));
  EXPECT_THAT(text("te_fp8_currentscaling"), HasSubstr("rounded=float8"));
}

TEST(Rounding, GoesOnInTheGradients) {
  graph::Builder builder;
  const graph::Tensor x = builder.input("x", {8, 16}, DType::bfloat16, {"", ""});
  const graph::Tensor w = builder.parameter("w", {16, 4}, DType::bfloat16, {{"", ""}, {}, graph::Role::mlp_kernel});
  builder.mark_result(graph::reduce(graph::Reduction::sum, graph::einsum("y", "bm,mf->bf", x, w), {0, 1}), "loss");
  const Graph marked = with_rounded_products(builder.take(), Rounded::int8);
  EXPECT_THAT(graph::to_text(marked), HasSubstr("rounded=int8"));
}

TEST(Rounding, TakesTheChipsRateAndPassesOverItsOperands) {
  mesh::Chip chip;
  chip.bf16_flops_per_second = 1e15;
  chip.fp8_flops_per_second = 2e15;
  chip.memory_bytes_per_second = 1e12;
  graph::Work work{"einsum", graph::KernelKind::product, DType::bfloat16, 1e13, 0, 4096, 4096, 4096};
  const double plain = cost::kernel_seconds(work, chip);
  work.rounded = Rounded::float8;
  const double faster = cost::kernel_seconds(work, chip);
  EXPECT_NEAR((faster - 2e-6) / (plain - 2e-6), 0.5, 1e-9);
  work.rounded_values = 1e9;
  EXPECT_NEAR(cost::kernel_seconds(work, chip) - faster, 5e9 / (0.85 * 1e12), 1e-6);
  work.rounded = Rounded::int8;
  work.rounded_values = 0;
  EXPECT_NEAR(cost::kernel_seconds(work, chip), plain, 1e-9) << "a chip that has no such rate";
}

TEST(Rounding, IsPlannedAndNotRun) {
  const std::string request = "model_name=mixtral-8x7b " + kSmall + "quantization=fp8 ";
  EXPECT_EQ(cli::outcome("compile " + request).code, 0);
  EXPECT_EQ(cli::outcome("shardings " + request).code, 0);
  for (const char* command : {"train ", "bench "}) {
    const cli::Outcome outcome = cli::outcome(command + request + "compile_topology=cpu-8 dataset_type=synthetic");
    EXPECT_EQ(outcome.code, 2) << command;
    EXPECT_THAT(outcome.err, HasSubstr("quantization=fp8: products in low precision are planned, but not run yet")) << command;
  }
}

}  // namespace
}  // namespace moesh::models
