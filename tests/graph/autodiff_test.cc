// Compares the gradient of every op with finite differences, in float64 and on graphs that are differentiated, lowered and run as usual.
#include <algorithm>
#include <set>

#include "graph/facts.h"
#include "tests/graph/gradient_cases.h"
#include "tests/support.h"

namespace moesh::graph::test {
namespace {

using moesh::test::message_of;

const GradientCases& all_cases() {
  static const GradientCases all = [] {
    GradientCases joined;
    for (const GradientCases& some : {elementwise_cases(), shape_cases(), layer_cases(), expert_cases()}) {
      joined.insert(joined.end(), some.begin(), some.end());
    }
    return joined;
  }();
  return all;
}

struct Problem {
  Graph graph;
  ValueId loss;
  std::vector<Numbers> feeds;
};

// The graph of a case, with its outputs combined into one loss.
Problem problem_of(const GradientCase& of) {
  Builder builder;
  Problem made{{}, -1, of.operands};
  Tensors operands;
  for (const Numbers& operand : of.operands) {
    operands.push_back(input_like(builder, fmt::format("operand{}", operands.size()), operand));
  }
  made.loss = weighted_sum(builder, of.build(builder, operands), made.feeds).id;
  made.graph = builder.take();
  return made;
}

// All unit directions of a small operand, or a few random directions of a large one.
std::vector<std::vector<double>> directions(const Numbers& operand) {
  constexpr std::int64_t kSmall = 150;
  constexpr unsigned kRandom = 6;
  const auto count = static_cast<std::size_t>(operand.count());
  std::vector<std::vector<double>> all;
  for (std::size_t i = 0; operand.count() <= kSmall && i < count; ++i) {
    all.emplace_back(count, 0.0);
    all.back()[i] = 1;
  }
  for (unsigned seed = 0; operand.count() > kSmall && seed < kRandom; ++seed) {
    const Numbers random = random_numbers(operand.shape, 500 + seed);
    all.emplace_back(count);
    for (std::size_t i = 0; i < count; ++i) all.back()[i] = random.at(static_cast<std::int64_t>(i));
  }
  return all;
}

double along(const Numbers& gradient, const std::vector<double>& direction) {
  double sum = 0;
  for (std::size_t i = 0; i < direction.size(); ++i) sum += gradient.at(static_cast<std::int64_t>(i)) * direction[i];
  return sum;
}

class Gradient : public ::testing::TestWithParam<GradientCase> {};

TEST_P(Gradient, IsTheSlope) {
  // Differences with a step of 1e-5 are off by 1e-10 from rounding and by some 1e-9 from the third derivative.
  constexpr double kTolerance = 1e-7;
  const GradientCase& of = GetParam();
  const Problem problem = problem_of(of);
  const Differentiated made = differentiate(problem.graph, problem.loss, {});
  const std::vector<Numbers> results = run_graph(made.backward, problem.feeds);
  EXPECT_EQ(results[0].bytes, run_graph(made.forward, problem.feeds)[0].bytes);
  for (std::size_t i = 0; i < made.of.size() && made.of[i] < of.operands.size(); ++i) {
    const std::size_t feed = made.of[i];
    const Numbers& gradient = results[i + 1];
    ASSERT_EQ(gradient.shape, problem.feeds[feed].shape);
    ASSERT_EQ(gradient.dtype, DType::float64);
    double largest = 0;
    for (const std::vector<double>& direction : directions(problem.feeds[feed])) {
      const double expected = slope(made.forward, problem.feeds, feed, direction, of.step);
      largest = std::max(largest, std::abs(expected));
      EXPECT_NEAR(along(gradient, direction), expected, kTolerance * (1 + std::abs(expected))) << "operand " << feed;
    }
    if (of.flat.contains(feed)) {
      EXPECT_LT(largest, kTolerance) << "operand " << feed;
    } else {
      EXPECT_GT(largest, 0.01) << "operand " << feed << " moves nothing: the case tests nothing";
    }
  }
}

// The fast kernels and the plain ones give the same gradients, up to the order of summation.
TEST_P(Gradient, IsTheSameByThePlainKernels) {
  const Problem problem = problem_of(GetParam());
  const Graph backward = differentiate(problem.graph, problem.loss, {}).backward;
  const std::vector<Numbers> ours = run_graph(backward, problem.feeds);
  const std::vector<Numbers> plain = run_plainly(backward, problem.feeds);
  for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_LT(backend::test::distance(ours[i], plain[i]), 1e-12) << i;
}

INSTANTIATE_TEST_SUITE_P(Of, Gradient, ::testing::ValuesIn(all_cases()),
                         [](const auto& test) { return test.param.name(); });

// Ops without a gradient: sources of values, counts, gradients themselves, and optimizer updates.
const std::set<Op>& without_gradient() {
  static const std::set<Op> ops{
      Op::input,      Op::parameter,          Op::fill,          Op::random_scores, Op::expert_load, Op::positions, Op::temper,   Op::stage_state,        Op::sort_slots,
      Op::gather,     Op::device_index,       Op::all_sum,       Op::plan_exchange, Op::unary_grad,         Op::softmax_grad,
      Op::embed_grad, Op::embed_add,      Op::attention_grad,     Op::rms_norm_grad, Op::top_k_grad,    Op::cross_entropy_grad, Op::spread_grad,
      Op::grouped_sum, Op::slots, Op::slot_products, Op::grouped_outer, Op::cache_write, Op::weighted_rows_grad, Op::sum_squares,
      Op::adam_update, Op::sgd_update, Op::momentum_update, Op::balance_update, Op::clip_update, Op::highest, Op::chain,
      Op::detach, Op::choose_keys, Op::chosen_rows, Op::attention_shares, Op::index_scores_grad, Op::index_loss_grad,
      Op::causal_conv_grad, Op::delta_rule_grad, Op::doubly_stochastic_grad, Op::windows, Op::pool_grad, Op::give_experts,
      Op::new_windows, Op::window_rows,
      // Rewritten as other ops before the backward pass is built.
      Op::slot_mask,
      // Created after the backward pass has been built.
      Op::reshard,         Op::vocab_scores,       Op::cross_entropy_of_scores, Op::row_dot,       Op::rms_norm_of_dots, Op::rms_norm_grad_of_dots, Op::list_tokens, Op::sum_rows, Op::scatter_rows,
      Op::fetched_rows_grad,
      Op::vocab_loss,      Op::vocab_logs,         Op::vocab_loss_grad,
  };
  return ops;
}

// The gradient of a repeat is compared with that of unrolled layers, in repeat_test.cc.
bool is_tested_elsewhere(Op op) { return op == Op::repeat; }

std::vector<Op> all_ops() {
  std::vector<Op> ops;
  for (int i = 0; i < kOps; ++i) ops.push_back(static_cast<Op>(i));
  return ops;
}

TEST(Gradients, OfEveryOpAreTestedOrKnownToBeNone) {
  EXPECT_GT(all_ops().size(), 45u);
  for (const Op op : all_ops()) {
    const bool tested =
        std::any_of(all_cases().begin(), all_cases().end(), [&](const GradientCase& c) { return c.op == op; });
    EXPECT_EQ(static_cast<int>(tested) + static_cast<int>(without_gradient().contains(op)) +
                  static_cast<int>(is_tested_elsewhere(op)),
              1)
        << name_of(op) << " belongs in a case of gradient_cases.h or in without_gradient()";
  }
}

TEST(Gradients, AreTestedOnGraphsThatHoldTheOp) {
  for (const GradientCase& c : all_cases()) {
    if (c.name() == "unary_identity") continue;  // adds no node
    const Graph graph = problem_of(c).graph;
    EXPECT_TRUE(std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) { return node.op == c.op; }))
        << c.name();
  }
}

TEST(Gradients, OfEveryFunctionAreTested) {
  const auto has = [](Op op, std::string_view function) {
    return std::any_of(all_cases().begin(), all_cases().end(),
                       [&](const GradientCase& c) { return c.op == op && c.variant == function; });
  };
  for (int i = 0; name_of(static_cast<Unary>(i)) != "?"; ++i)
    EXPECT_TRUE(has(Op::unary, name_of(static_cast<Unary>(i)))) << i;
  for (int i = 0; name_of(static_cast<Binary>(i)) != "?"; ++i)
    EXPECT_TRUE(has(Op::binary, name_of(static_cast<Binary>(i)))) << i;
  EXPECT_EQ(name_of(static_cast<Reduction>(1)), "?") << "a reduction without a gradient test";
}

Tensor scalar_of(Tensor x) { return reduce(Reduction::sum, x, {0}); }

TEST(Gradients, HaveARuleOnlyWhereTheyAreTested) {
  for (const Op op : without_gradient()) {
    const std::set<Op> dead_ends{Op::expert_load, Op::slots, Op::detach, Op::windows, Op::give_experts};  // nothing flows back
    if (dead_ends.contains(op)) continue;
    EXPECT_EQ(facts_of(op).gradient, nullptr) << name_of(op);
  }
}

TEST(Gradients, DoNotFlowThroughWhatIsDetached) {
  Builder builder;
  const Tensor x = builder.input("x", {3}, DType::float64, {""});
  const std::vector<Tensor> made = gradients(scalar_of(multiply(detach(x), x)), {x});
  builder.mark_result(made[0]);
  EXPECT_EQ(backend::test::distance(run_graph(builder.take(), {noise(DType::float64, {3}, 1)})[0], noise(DType::float64, {3}, 1)), 0);
}

TEST(Gradients, AreZerosForWhatTheScalarDoesNotDependOn) {
  Builder builder;
  const Tensor x = builder.input("x", {3}, DType::float64, {""});
  const Tensor apart = builder.input("apart", {2, 5}, DType::float64, {"", ""});
  const Tensors made = gradients(scalar_of(x), {x, apart});
  for (const Tensor& gradient : made) builder.mark_result(gradient);
  const std::vector<Numbers> results = run_graph(builder.graph(), {random_numbers({3}, 1), random_numbers({2, 5}, 2)});
  EXPECT_EQ(results[0].bytes, filled(DType::float64, {3}, 1).bytes);
  EXPECT_EQ(results[1].bytes, filled(DType::float64, {2, 5}, 0).bytes);
}

TEST(Gradients, StopAtCountsAndIds) {
  Builder builder;
  const Tensor x = builder.input("x", {3}, DType::float64, {""});
  const Tensor ids = builder.input("ids", {1, 3, 1}, DType::int32, {"", "", ""});
  const Tensor load = builder.add_one(Op::expert_load, "load", {ids}, {}, {1, 3}, DType::float32);
  const Tensor counts = cast(reshape(load, {3}), DType::float64);
  const Tensor y = multiply(multiply(x, counts), cast(reshape(ids, {3}), DType::float64));
  builder.mark_result(gradients(scalar_of(y), {x})[0]);
  const std::vector<Numbers> results =
      run_graph(builder.graph(), {random_numbers({3}, 1), values(DType::int32, {1, 3, 1}, {2, 0, 2})});
  EXPECT_EQ(results[0].bytes, values(DType::float64, {3}, {2, 0, 4}).bytes);
}

// If a value is cast to a narrower type, its gradient has that type on the way, and the type of the value at the end.
TEST(Gradients, HaveTheTypeOfWhatTheyBelongTo) {
  Builder builder;
  const Tensor wide = builder.input("wide", {3}, DType::float32, {""});
  const Tensor narrow = builder.input("narrow", {3}, DType::bfloat16, {""});
  const Tensor y = cast(multiply(cast(wide, DType::bfloat16), narrow), DType::float32);
  const Tensors made = gradients(scalar_of(y), {wide, narrow});
  EXPECT_EQ(made[0].dtype(), DType::float32);
  EXPECT_EQ(made[1].dtype(), DType::bfloat16);
}

TEST(Gradients, BearThePathOfWhatTheyBelongTo) {
  Builder builder;
  const Tensor x = builder.input("x", {3}, DType::float64, {""});
  const Scope scope(builder, "layer");
  gradients(scalar_of(unary(Unary::silu, x)), {x});
  EXPECT_EQ(builder.graph().nodes.back().path, "layer/silu'");
}

}  // namespace
}  // namespace moesh::graph::test
