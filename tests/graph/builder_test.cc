// Tests what the builder checks and adds, and how a graph is printed.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "graph/builder.h"
#include "graph/print.h"
#include "tests/support.h"

namespace moesh::graph {
namespace {

using test::message_of;

Tensor input(Builder& builder, const Shape& shape, DType dtype = DType::float32) {
  return builder.input("x", shape, dtype, Labels(shape.size()));
}

TEST(Builder, PathsAreScopesAndNames) {
  Builder builder;
  EXPECT_EQ(builder.path("w"), "w");
  const Scope outer(builder, "decoder");
  {
    const Scope inner(builder, "mlp");
    EXPECT_EQ(builder.path("w"), "decoder/mlp/w");
    EXPECT_EQ(builder.path(""), "decoder/mlp");
  }
  EXPECT_EQ(builder.path("w"), "decoder/w");
}

TEST(Builder, GivesAnEinsumTheSizesOfItsLetters) {
  Builder builder;
  const Tensor out = einsum("y", "bsm,mhd->bshd", input(builder, {2, 3, 4}), input(builder, {4, 5, 6}));
  EXPECT_EQ(out.shape(), (Shape{2, 3, 5, 6}));
}

TEST(Builder, RefusesAnEinsumThatDoesNotFit) {
  Builder builder;
  const Scope scope(builder, "layer");
  const Tensor a = input(builder, {2, 3});
  EXPECT_EQ(message_of([&] {
              einsum("y", "bm,mh->bh", a, input(builder, {4, 5}));
            }),
            "layer/y: bm,mh->bh does not fit operands of shapes [2, 3] and [4, 5]");
  EXPECT_EQ(message_of([&] {
              einsum("y", "bsm,mh->bh", a, input(builder, {3, 5}));
            }),
            "layer/y: bsm,mh->bh does not fit operands of shapes [2, 3] and [3, 5]");
  EXPECT_NE(message_of([&] { einsum("y", "bm,mh->bh", a, input(builder, {3, 5}, DType::bfloat16)); }), "no error");
}

TEST(Builder, RefusesElementwiseWorkOnUnlikeOperands) {
  Builder builder;
  const Tensor a = input(builder, {2, 3});
  EXPECT_EQ(message_of([&] {
              add(a, input(builder, {3, 2}));
            }),
            "add: add does not fit operands of shapes [2, 3] and [3, 2]");
  EXPECT_NE(message_of([&] { multiply(a, input(builder, {2, 3}, DType::bfloat16)); }), "no error");
  EXPECT_EQ(message_of([&] { add(a, input(builder, {2, 3})); }), "no error");
}

TEST(Builder, RefusesShapesThatDoNotFit) {
  Builder builder;
  const Tensor x = input(builder, {2, 6});
  EXPECT_EQ(message_of([&] {
              reshape(x, {3, 5});
            }),
            "reshape: reshape to [3, 5] does not fit operands of shapes [2, 6]");
  EXPECT_EQ(message_of([&] {
              broadcast(x, {2, 5}, {0, 1});
            }),
            "broadcast: broadcast to [2, 5] does not fit operands of shapes [2, 6]");
  EXPECT_NE(message_of([&] { broadcast(x, {2, 6}, {0}); }), "no error");
  EXPECT_EQ(message_of([&] { slice(x, 1, 4, 3); }), "slice: 3 elements of dim 1 from 4 on does not fit operands of shapes [2, 6]");
  EXPECT_NE(message_of([&] { slice(x, 1, -1, 3); }), "no error");
  EXPECT_EQ(message_of([&] {
              concat({x, input(builder, {3, 6})}, 1);
            }),
            "concat: concat along dim 1 does not fit operands of shapes [2, 6] and [3, 6]");
}

TEST(Builder, ShapesWhatFits) {
  Builder builder;
  const Tensor x = input(builder, {2, 6});
  EXPECT_EQ(reshape(x, {3, 4}).shape(), (Shape{3, 4}));
  EXPECT_EQ(transpose(x, {1, 0}).shape(), (Shape{6, 2}));
  EXPECT_EQ(slice(x, 1, 4, 2).shape(), (Shape{2, 2}));
  EXPECT_EQ(concat({x, x, input(builder, {2, 1})}, 1).shape(), (Shape{2, 13}));
  EXPECT_EQ(broadcast(x, {2, 5, 6}, {0, 2}).shape(), (Shape{2, 5, 6}));
  EXPECT_EQ(reduce(Reduction::sum, x, {0}).shape(), (Shape{6}));
  EXPECT_EQ(add_bias(x, input(builder, {6})).shape(), (Shape{2, 6}));
}

TEST(Builder, AddsNothingForWhatChangesNothing) {
  Builder builder;
  const Tensor x = input(builder, {2});
  EXPECT_EQ(cast(x, DType::float32).id, x.id);
  EXPECT_EQ(unary(Unary::identity, x).id, x.id);
  EXPECT_EQ(scale(x, 1).id, x.id);
  EXPECT_NE(scale(x, 2).id, x.id);
  EXPECT_EQ(cast(x, DType::bfloat16).dtype(), DType::bfloat16);
}

Tensor layer(Builder& builder, Tensor x) {
  const Tensor w = builder.parameter("w", {4, 4}, DType::float32, {{"in", "out"}, {}});
  return einsum("y", "bm,mn->bn", x, w);
}

std::vector<Tensor> repeated(Builder& builder, Tensor x, const std::function<Tensor(Builder&, Tensor)>& body) {
  return repeat(builder, {"layers", {3}, {"layers"}, 1}, {x}, {},
                {[&](Builder& b, const std::vector<Tensor>& carried, const std::vector<Tensor>&) {
                  return std::vector<Tensor>{body(b, carried[0])};
                }});
}

TEST(Builder, StacksTheParametersOfARepeatedBody) {
  Builder builder;
  const Scope scope(builder, "decoder");
  repeated(builder, input(builder, {2, 4}), layer);
  const Node* stacked = nullptr;
  for (const Node& node : builder.graph().nodes) {
    if (node.op == Op::parameter) stacked = &node;
  }
  ASSERT_NE(stacked, nullptr);
  EXPECT_EQ(stacked->path, "decoder/layers/w");
  EXPECT_EQ(builder.graph().value(stacked->results[0]).shape, (Shape{4, 3, 4}));
  EXPECT_EQ(std::get<ParameterOf>(stacked->attributes).labels, (Labels{"in", "layers", "out"}));
}

TEST(Builder, RefusesALayerThatChangesTheShapeOfWhatItCarries) {
  Builder builder;
  const std::string message = message_of([&] {
    repeated(builder, input(builder, {2, 4}), [](Builder&, Tensor x) { return reduce(Reduction::sum, x, {1}); });
  });
  EXPECT_EQ(message, "layers: a layer that keeps its shape does not fit operands of shapes [2] and [2, 4]");
}

TEST(Builder, MarksConstraintsBesideAPipeline) {
  Builder builder;
  const Tensor x = input(builder, {2});
  builder.let_stages_carry_batch(true);
  constrain("c", x, Labels{"a"});
  builder.let_stages_carry_batch(false);
  constrain("d", x, Labels{"a"});
  const auto& nodes = builder.graph().nodes;
  EXPECT_TRUE(std::get<ConstraintOf>(nodes[1].attributes).stage_as_data);
  EXPECT_FALSE(std::get<ConstraintOf>(nodes[2].attributes).stage_as_data);
}

TEST(Print, WritesALineAValueAndIndentsBodies) {
  Builder builder;
  const Tensor tokens = builder.input("tokens", {2, 4}, DType::float32, {"batch", ""});
  Tensor x =
      constrain("laid", cast(tokens, DType::bfloat16), ConstraintOf{{"batch", ""}, true, {"expert"}, {0}, false});
  x = cast(x, DType::float32);
  x = repeated(builder, x, layer)[0];
  builder.mark_result(unary(Unary::clamp, scale(x, 0.5), -1, 1));
  EXPECT_EQ(to_text(builder.graph()),
            "%0: float32[2, 4] = input labels=(batch, -)  # tokens\n"
            "%1: bfloat16[2, 4] = cast %0  # cast\n"
            "%2: bfloat16[2, 4] = constraint %1 labels=(batch, -) each_dim_alone=true peeled=(expert) peeled_dims=[0]  # laid\n"
            "%3: float32[2, 4] = cast %2  # cast\n"
            "%4: float32[4, 3, 4] = parameter labels=(in, layers, out)  # layers/w\n"
            "%5: float32[2, 4] = repeat %3, %4 sizes=[3] labels=(layers) carried=1 slices=[1]  # layers\n"
            "  %0: float32[2, 4] = input labels=(-, -)  # layers/carried0\n"
            "  %1: float32[4, 4] = input labels=(in, out)  # layers/w\n"
            "  %2: float32[2, 4] = einsum %0, %1 equation=\"bm,mn->bn\"  # layers/y\n"
            "  return %2\n"
            "%6: float32[2, 4] = unary %5 function=scale a=0.5  # scale\n"
            "%7: float32[2, 4] = unary %6 function=clamp a=-1 b=1  # clamp\n"
            "return %7\n");
}

TEST(Builder, RefusesRowsThatDoNotFitTheCache) {
  Builder builder;
  const Tensor cache = input(builder, {2, 8, 3});
  const Tensor slots = input(builder, {2, 1}, DType::int32);
  EXPECT_EQ(message_of([&] { cache_write(cache, input(builder, {2, 1, 4}), slots); }),
            "cache_write: a cache [B, T, ...] with rows [B, S, ...] and slots [B, S] does not fit operands of shapes [2, 8, 3] and "
            "[2, 1, 4] and [2, 1]");
  EXPECT_EQ(message_of([&] { cache_write(cache, input(builder, {2, 2, 3}), slots); }),
            "cache_write: a cache [B, T, ...] with rows [B, S, ...] and slots [B, S] does not fit operands of shapes [2, 8, 3] and "
            "[2, 2, 3] and [2, 1]");
  const Tensor rows = input(builder, {2, 1, 3});
  EXPECT_EQ(cache_write(cache, rows, slots).shape(), (Shape{2, 8, 3}));
  const std::string wanted = "cache_write: a cache [B, T, ...] with rows [B, S, ...] and slots [B, S]";
  EXPECT_EQ(cache_write(cache, {rows, slots, rows, slots}, {.pools = 8}).shape(), (Shape{2, 8, 3}));
  EXPECT_THAT(message_of([&] { cache_write(cache, {rows, slots, rows, slots}, {.pools = 9}); }), ::testing::HasSubstr(wanted));
  EXPECT_THAT(message_of([&] { cache_write(cache, {rows, slots, rows, slots}, {}); }), ::testing::HasSubstr(wanted));
  EXPECT_THAT(message_of([&] { cache_write(cache, {rows, slots}, {.pools = 1}); }), ::testing::HasSubstr(wanted));
}

// The state of an iteration is a slice of a stack along its first dim, and the updated states are stacked again.
TEST(Builder, KeepsWhatLayersChange) {
  Builder builder;
  const Tensor x = input(builder, {2, 4});
  builder.mark_result(repeated(builder, x, [](Builder& b, Tensor h) {
    const Tensor state = b.state("state", {2, 4}, DType::float32, {"batch", ""});
    b.keep(state, add(state, h));
    return add(h, state);
  })[0], "out");
  EXPECT_EQ(to_text(builder.graph()),
            "%0: float32[2, 4] = input labels=(-, -)  # x\n"
            "%1: float32[3, 2, 4] = input labels=(layers, batch, -) kind=state  # layers/state\n"
            "%2: float32[2, 4], %3: float32[3, 2, 4] = repeat %0, %1 sizes=[3] labels=(layers) carried=1 slices=[0] stacks=[0]  # layers\n"
            "  %0: float32[2, 4] = input labels=(-, -)  # layers/carried0\n"
            "  %1: float32[2, 4] = input labels=(batch, -) kind=state  # layers/state\n"
            "  %2: float32[2, 4] = binary %1, %0 function=add  # layers/add\n"
            "  %3: float32[2, 4] = binary %0, %1 function=add  # layers/add\n"
            "  return %3, %2\n"
            "return %3 as layers/state, %2 as out\n");
  EXPECT_EQ(builder.graph().result_names, (std::vector<std::string>{"layers/state", "out"}));
}

TEST(Print, CountsWhatAGraphHolds) {
  Builder builder;
  const Tensor x = constrain("laid", input(builder, {2, 4}), Labels(2));
  repeated(builder, x, [](Builder& b, Tensor h) { return constrain("inside", layer(b, h), Labels(2)); });
  const GraphCounts counts = count(builder.graph());
  EXPECT_EQ(counts.parameters, 1);
  EXPECT_EQ(counts.constraints, 2);
}

}  // namespace
}  // namespace moesh::graph
