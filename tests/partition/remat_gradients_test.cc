// Tests which gradients are recomputed, and that updates stay the same.
#include "partition/remat_gradients.h"

#include <algorithm>
#include <regex>
#include <utility>

#include <gtest/gtest.h>

#include "graph/parse.h"
#include "graph/print.h"
#include "plan/arena.h"
#include "tests/graph/graph_support.h"
#include "tests/support.h"
#include "tests/train/trainer_support.h"

namespace moesh::partition {
namespace {

using graph::Builder;
using graph::Graph;
using graph::Op;
using graph::Tensor;

std::string again(const std::string& text) { return graph::to_text(with_gradients_made_again(graph::parse_graph(text).graph)); }

// The inputs of a weight's gradient and update. There is one token, so activations are much smaller than the weight.
const std::string kInputs =
    "%0: float32[4] = input labels=(-) kind=number  # numbers\n"
    "%1: float32[1, 9] = input labels=(-, -)  # x\n"
    "%2: float32[1, 10] = input labels=(-, -)  # dy\n"
    "%3: float32[9, 10] = input labels=(-, -)  # w\n"
    "%4: float32[1, 9] = unary %1 function=silu  # silu\n"
    "%5: float32[1, 10] = unary %2 function=silu  # silu\n";
const std::string kGradient = "%6: float32[9, 10] = einsum %4, %5 equation=\"sm,sf->mf\" phase backward  # dw\n";
const std::string kUpdate =
    "%7: float32[] = sum_squares %6 phase update  # squares\n"
    "%8: float32[9, 10] = sgd_update %3, %6, %0 phase update  # sgd\n";

TEST(RematGradients, MakesAGradientAgainForItsUpdate) {
  EXPECT_EQ(again(kInputs + kGradient + kUpdate + "return %7 as squares, %8 as w\n"),
            kInputs + "%6: float32[1, 1] = einsum %4, %4 equation=\"sm,am->sa\" phase update  # squares\n"
                      "%7: float32[1, 1] = einsum %5, %5 equation=\"sf,af->sa\" phase update  # squares\n"
                      "%8: float32[1, 1] = binary %6, %7 function=multiply phase update  # squares\n"
                      "%9: float32[] = reduce %8 function=sum dims=[0, 1] phase update  # squares\n"
                      "%10: float32[9, 10] = einsum %4, %5 equation=\"sm,sf->mf\" phase update  # dw\n"
                      "%11: float32[9, 10] = sgd_update %3, %10, %0 phase update  # sgd\n"
                      "return %9 as squares, %11 as w\n");
}

TEST(RematGradients, LeavesWhatOthersReadOrWhatIsNoProductAndMeetsTooManyTokens) {
  const std::string results = "return %7 as squares, %8 as w\n";
  for (const std::string& text :
       {kInputs + kGradient + kUpdate + "return %7 as squares, %8 as w, %6 as dw\n",
        kInputs + "%6: float32[9, 10] = unary %3 function=silu phase backward  # dw\n" + kUpdate +
            "return %7 as squares, %8 as w, %4 as x, %5 as dy\n",
        kInputs + "%6: float32[9, 10] = einsum %4, %5 equation=\"sm,sf->mf\" rounded=int8 phase backward  # dw\n" + kUpdate + results,
        std::regex_replace(kInputs + kGradient, std::regex("\\[1, "), "[3, ") + kUpdate + results}) {
    EXPECT_EQ(again(text), text);
  }
}

// A weight, for graphs of its gradient, the gradient's sum of squares and the update, for one layer or a stack of layers.
struct Weight {
  std::string equation;  // equation of the gradient
  Shape x, dy;

  Tensor gradient(Tensor of_x, Tensor of_dy) const { return graph::einsum("dw", equation, of_x, of_dy); }
};

constexpr std::int64_t kLayers = 3;

Shape with_layers(Shape shape) {
  shape.insert(shape.begin(), kLayers);
  return shape;
}

void add_update(Builder& builder, Tensor w, Tensor gradient, Tensor numbers) {
  builder.mark_result(builder.add_one(Op::sum_squares, "squares", {gradient}, {}, {}, DType::float32), "squares");
  builder.mark_result(builder.add_one(Op::sgd_update, "sgd", {w, gradient, numbers}, graph::SgdOf{0.25}, w.shape(), w.dtype()), "w");
}

Graph of_one(const Weight& weight) {
  Builder builder;
  const Tensor numbers = builder.input("numbers", {graph::kUpdateNumbers}, DType::float32, Labels(1));
  const Tensor x = builder.input("x", weight.x, DType::float32, Labels(weight.x.size()));
  const Tensor dy = builder.input("dy", weight.dy, DType::float32, Labels(weight.dy.size()));
  const Tensor gradient = weight.gradient(x, graph::scale(dy, 0.5));
  add_update(builder, builder.input("w", gradient.shape(), DType::float32, Labels(gradient.shape().size())), gradient, numbers);
  return builder.take();
}

Graph of_layers(const Weight& weight) {
  Builder builder;
  const Tensor numbers = builder.input("numbers", {graph::kUpdateNumbers}, DType::float32, Labels(1));
  const Tensor x = builder.input("x", with_layers(weight.x), DType::float32, Labels(weight.x.size() + 1));
  const Tensor dy = builder.input("dy", weight.dy, DType::float32, Labels(weight.dy.size()));
  const auto build = [&](Builder& inner, const std::vector<Tensor>& carried, const std::vector<Tensor>&) {
    const Tensor next = graph::scale(carried[0], 0.5);
    return std::vector<Tensor>{next, weight.gradient(inner.slice_of(x, 1), next)};
  };
  const Tensor gradient = graph::repeat(builder, {"layers", {kLayers}, {""}, 0}, {dy}, {}, {build, 0})[1];
  add_update(builder, builder.input("w", gradient.shape(), DType::float32, Labels(gradient.shape().size())), gradient, numbers);
  return builder.take();
}

std::vector<graph::test::Numbers> run(const Graph& graph) {
  std::vector<graph::test::Numbers> feeds;
  for (const graph::ValueId id : graph::inputs_of(graph)) {
    const graph::Value& value = graph.value(id);
    feeds.push_back(graph::test::noise(value.dtype, value.shape, static_cast<std::uint32_t>(feeds.size() + 1)));
  }
  feeds[0].set(3, 1);  // the update is applied
  return graph::test::run_graph(graph, feeds);
}

TEST(RematGradients, OfAnyEquationAreTheSame) {
  for (const Weight& weight : {Weight{"sm,sf->mf", {3, 40}, {3, 50}}, Weight{"sm,sf->fm", {3, 40}, {3, 50}},
                               Weight{"bsm,bsf->mf", {2, 3, 90}, {2, 3, 70}}, Weight{"bsm,bshd->mhd", {1, 4, 60}, {1, 4, 5, 7}},
                               Weight{"ebcm,ebcf->emf", {2, 1, 3, 40}, {2, 1, 3, 30}}, Weight{"ea,ec->eac", {2, 40}, {2, 30}}}) {
    for (const Graph& graph : {of_one(weight), of_layers(weight)}) {
      const Graph made = with_gradients_made_again(graph);
      EXPECT_TRUE(std::none_of(made.nodes.begin(), made.nodes.end(), [](const graph::Node& node) { return node.op == Op::sum_squares; }))
          << weight.equation;
      const std::vector<graph::test::Numbers> expected = run(graph), is = run(made);
      EXPECT_NEAR(is[0].at(0), expected[0].at(0), 1e-5 * expected[0].at(0)) << weight.equation;
      EXPECT_EQ(is[1].bytes, expected[1].bytes) << weight.equation;
    }
  }
}

const std::string kFewTokens = test::kTinyModel + "base_emb_dim=48 base_mlp_dim=64 per_device_batch_size=1 max_target_length=4 ";

std::pair<std::vector<double>, std::vector<std::vector<double>>> losses_and_parameters(test::Training& training) {
  std::vector<double> losses;
  for (int step = 0; step < 3; ++step) losses.push_back(training.trainer.run_step(training.batch(step)).metrics.loss);
  std::vector<std::vector<double>> parameters;
  for (const std::string& path : training.paths()) parameters.push_back(training.parameter(path));
  return {losses, parameters};
}

// Without clipping, an update does not depend on the gradient norm, so the bits must be the same.
TEST(RematGradients, TrainToTheSameBitsInLessMemory) {
  for (const std::string more : {"", "scan_layers=false", "opt_type=adam_pax", "opt_type=sgd", "opt_type=muon", "logits_via_embedding=true",
                                 "remat_policy=everything", "gradient_accumulation_steps=2", "dtype=bfloat16", "mu_dtype=bfloat16",
                                 "base_num_decoder_layers=1"}) {
    const std::string request = kFewTokens + "gradient_clipping_threshold=0 " + more;
    test::Training kept(request + " remat_gradients=false"), remade(request);
    EXPECT_EQ(losses_and_parameters(kept), losses_and_parameters(remade)) << more;
    const auto step_bytes = [](const test::Training& of) { return plan::device_arena(of.trainer.plan()).bytes; };
    const bool is_same = more == "gradient_accumulation_steps=2" || more == "opt_type=muon";  // other ops read the gradients
    EXPECT_TRUE(is_same ? step_bytes(remade) == step_bytes(kept) : step_bytes(remade) < step_bytes(kept))
        << more << ": " << step_bytes(remade) << " and " << step_bytes(kept);
  }
}

TEST(RematGradients, AreClippedByTheSameNorm) {
  for (const std::string more : {"", "scan_layers=false"}) {
    test::Training kept(kFewTokens + more + " remat_gradients=false"), remade(kFewTokens + more);
    for (int step = 0; step < 3; ++step) {
      const train::StepResults expected = kept.trainer.run_step(kept.batch(step)), is = remade.trainer.run_step(remade.batch(step));
      EXPECT_NEAR(is.metrics.raw_grad_norm, expected.metrics.raw_grad_norm, 1e-5 * expected.metrics.raw_grad_norm);
      EXPECT_NEAR(is.metrics.grad_norm, expected.metrics.grad_norm, 1e-5 * expected.metrics.grad_norm);
      EXPECT_NEAR(is.metrics.loss, expected.metrics.loss, 1e-5 * expected.metrics.loss);
    }
  }
}

}  // namespace
}  // namespace moesh::partition
