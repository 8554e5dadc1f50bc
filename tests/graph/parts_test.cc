// Tests that parts of a batch go through nodes of their own, with what they share once.
#include "graph/parts.h"

#include <map>
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

TEST(Parts, NameWhatIsInRepeatsAndRegions) {
  Builder builder;
  const Tensor a = input(builder, "a", {2, 3}), b = input(builder, "b", {2, 3}), c = input(builder, "c", {2, 3});
  const mesh::Mesh mesh({});
  const auto build = [&](const std::vector<Tensor>& given) {
    const Body twice{[](Builder&, const std::vector<Tensor>& carried, const std::vector<Tensor>&) {
      return std::vector<Tensor>{scale(carried[0], 2)};
    }};
    const Tensor repeated = repeat(builder, {"stack", {4}, {""}, 0}, given, {}, twice).front();
    return region(builder, "experts", {"ring"}, {{repeated, sharding::whole_spec(2)}}, mesh,
                  [&](Builder&, const std::vector<Tensor>& shards) {
                    return std::vector<RegionResult>{{scale(shards[0], 3), {2, 3}, sharding::whole_spec(2)}};
                  });
  };
  in_parts(builder, {{a}, {b}, {c}}, build);
  std::map<std::string, std::string> bodies;
  for (const Node& node : builder.graph().nodes) {
    if (const Graph* body = body_of(node)) bodies[node.path] = body->nodes.back().path;
  }
  EXPECT_EQ(bodies, (std::map<std::string, std::string>{{"stack", "stack/scale"},
                                                        {"experts", "experts/scale"},
                                                        {"part_1/stack", "part_1/stack/scale"},
                                                        {"part_1/experts", "part_1/experts/scale"},
                                                        {"part_2/stack", "part_2/stack/scale"},
                                                        {"part_2/experts", "part_2/experts/scale"}}));
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
