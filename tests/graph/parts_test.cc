// Tests that parts of a batch go through nodes of their own, with what they share once.
#include "graph/parts.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "graph/region.h"
#include "tests/support.h"

namespace moesh::graph {
namespace {

std::multiset<std::string> paths_of(const Graph& graph) {
  std::multiset<std::string> paths;
  for (const Node& node : graph.nodes) paths.insert(node.path);
  return paths;
}

Tensor input(Builder& builder, const char* name, Shape shape) {
  const Labels labels(shape.size());
  return builder.input(name, std::move(shape), DType::float32, labels);
}

TEST(Parts, HaveNodesOfTheirOwnAndShareWhatDependsOnNoneOfThem) {
  Builder builder;
  const Scope scope(builder, "layer");
  const Tensor a = input(builder, "a", {2, 3}), b = input(builder, "b", {2, 3});
  const auto build = [&](const std::vector<Tensor>& given) {
    const Scope inner(builder, "mlp");
    const Tensor weight = cast(builder.parameter("w", {3, 3}, DType::bfloat16, {{"", ""}, {}, Role::none}), DType::float32);
    const Tensor product = tag(einsum("product", "bm,mn->bn", given[0], weight), "tagged");
    return std::vector<Tensor>{add(product, given[0]), weight};
  };
  const auto made = in_parts(builder, {{a}, {b}}, build);
  EXPECT_EQ(paths_of(builder.graph()),
            (std::multiset<std::string>{"layer/a", "layer/b", "layer/mlp/w", "layer/mlp/cast", "layer/mlp/product", "layer/mlp/add",
                                        "layer/part_1/mlp/product", "layer/part_1/mlp/add"}));
  EXPECT_EQ(made[0][1].id, made[1][1].id);
  const Node& sum = builder.graph().producer_of(made[1][0].id);
  EXPECT_EQ(sum.operands[1], b.id);
  const Node& product = builder.graph().producer_of(sum.operands[0]);
  EXPECT_EQ(product.operands, (std::vector<ValueId>{b.id, made[0][1].id}));
  EXPECT_EQ(product.tag, "tagged");
}

// The paths of what scales, in bodies too.
void find_scales(const Graph& graph, std::set<std::string>& found) {
  for (const Node& node : graph.nodes) {
    if (node.op == Op::unary) found.insert(node.path);
    if (const Graph* body = body_of(node)) find_scales(*body, found);
  }
}

TEST(Parts, NameWhatIsInRepeatsAndRegions) {
  Builder builder;
  const Tensor a = input(builder, "a", {2, 3}), b = input(builder, "b", {2, 3}), c = input(builder, "c", {2, 3});
  const mesh::Mesh mesh({});
  const auto build = [&](const std::vector<Tensor>& given) {
    const auto in_region = [&](Builder& of, Tensor x) {
      const auto body = [&](Builder&, const std::vector<Tensor>& shards) {
        return std::vector<RegionResult>{{scale(shards[0], 3), {2, 3}, sharding::whole_spec(2)}};
      };
      return region(of, "experts", {sharding::Dispatch::ring}, {{x, sharding::whole_spec(2)}}, mesh, body);
    };
    const Body body{[&](Builder& of, const std::vector<Tensor>& carried, const std::vector<Tensor>&) { return in_region(of, carried[0]); }};
    return in_region(builder, repeat(builder, {"stack", {4}, {""}, 0}, given, {}, body).front());
  };
  in_parts(builder, {{a}, {b}, {c}}, build);
  std::set<std::string> scales;
  find_scales(builder.graph(), scales);
  EXPECT_EQ(scales, (std::set<std::string>{"stack/experts/scale", "experts/scale", "part_1/stack/experts/scale", "part_1/experts/scale",
                                           "part_2/stack/experts/scale", "part_2/experts/scale"}));
}

TEST(Parts, AreToldByPaths) {
  EXPECT_EQ(part_of("decoder/layers/mlp"), 0);
  EXPECT_EQ(part_of("decoder/layers/part_1/mlp"), 1);
  EXPECT_EQ(part_of("decoder/layers/part_12'"), 12);
  EXPECT_EQ(part_of("part_3/mlp"), 3);
  EXPECT_EQ(part_of("decoder/counterpart_3/mlp"), 0);
}

}  // namespace
}  // namespace moesh::graph
