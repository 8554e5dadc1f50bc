// What is known of ops: each has a name of its own, and shapes that do not fit are refused wherever a node is added.
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "graph/facts.h"
#include "tests/support.h"

namespace moesh::graph {
namespace {

TEST(Facts, NameEveryOpOnce) {
  std::set<std::string_view> names;
  for (int i = 0; i < kOps; ++i) {
    const OpFacts& facts = facts_of(static_cast<Op>(i));
    EXPECT_TRUE(names.insert(facts.name).second) << facts.name;
    EXPECT_NE(facts.shapes, nullptr) << facts.name;
  }
}

// Whatever an op takes, seven flags are not it.
TEST(Facts, RefuseOperandsThatNoOpTakes) {
  for (int i = 0; i < kOps; ++i) {
    const Op op = static_cast<Op>(i);
    // A constant sum of any number of values; bodies are held to in repeat_test.cc and region_test.cc.
    if (op == Op::concat || op == Op::repeat || op == Op::region) continue;
    Builder builder;
    std::vector<Tensor> flags;
    for (int k = 0; k < 9; ++k) flags.push_back(builder.input("flag", {3}, DType::boolean, {""}));
    Attributes attributes;
    if (op == Op::einsum) attributes = EinsumOf{"ab,bc->ac"};
    if (op == Op::unary) attributes = UnaryOf{Unary::silu};
    if (op == Op::binary) attributes = BinaryOf{Binary::add};
    if (op == Op::broadcast) attributes = BroadcastOf{{0}};
    if (op == Op::reduce) attributes = ReduceOf{Reduction::sum, {0}};
    if (op == Op::transpose) attributes = TransposeOf{{0}};
    if (op == Op::slice) attributes = SliceOf{0, 0, 3};
    if (op == Op::pad) attributes = PadOf{0, 0, 0};
    if (op == Op::top_k) attributes = TopKOf{};
    if (op == Op::spread) attributes = SpreadOf{};
    if (op == Op::slot_mask || op == Op::fill_slots || op == Op::empty_slots || op == Op::slot_products) attributes = SlotMaskOf{};
    if (op == Op::grouped_matmul) attributes = GroupedMatmulOf{};
    if (op == Op::constraint) attributes = ConstraintOf{};
    if (op == Op::gather) attributes = GroupOf{};
    const std::string message =
        test::message_of([&] { builder.add(op, "made", flags, attributes, {{{2, 2}, DType::float32}, {{5}, DType::int32}}); });
    EXPECT_NE(message.find(" does not fit operands of shapes "), std::string::npos) << name_of(op) << ": " << message;
  }
}

}  // namespace
}  // namespace moesh::graph
