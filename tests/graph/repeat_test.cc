// A stack of layers, written once in a repeat, is the same function as the unrolled layers and has the same gradients, whatever is saved
// for the backward pass.
#include <algorithm>
#include <map>
#include <numeric>

#include "tests/graph/graph_support.h"

namespace moesh::graph::test {
namespace {

using Tensors = std::vector<Tensor>;
using Sizes = std::vector<std::int64_t>;

constexpr std::int64_t kRows = 2, kLength = 3, kWidth = 5, kHeads = 3, kDim = 2, kHidden = 7;

struct Weight {
  const char* name;
  Shape shape;
};
const std::vector<Weight> kWeights{
    {"scale", {kWidth}},       {"query", {kWidth, kHeads, kDim}}, {"out", {kHeads, kDim, kWidth}},
    {"wi", {kWidth, kHidden}}, {"wo", {kHidden, kWidth}},         {"temperature", {}}};

// Attention and an MLP with residual connections. Returns the carried value, a scalar of the layer, and a row of the layer.
Tensors layer(Builder& b, Tensor x, Tensor positions, Tensor segments, const Tensors& weights) {
  const Tensor normed = b.add_one(Op::rms_norm, "norm", {x, weights[0]}, RmsNormOf{}, x.shape(), x.dtype());
  const Tensor query = tag(einsum("query", "bsm,mhd->bshd", normed, weights[1]), "query_proj");
  const Tensor attended = tag(b.add_one(Op::attention, "attention", {query, query, query, positions, segments},
                                        AttentionOf{}, query.shape(), x.dtype()),
                              "context");
  const Tensor y = add(x, tag(einsum("out", "bshd,hdm->bsm", attended, weights[2]), "out_proj"));
  const Tensor hidden = unary(Unary::silu, tag(einsum("wi", "bsm,mf->bsf", y, weights[3]), "mlpwi_0"));
  const Tensor made = tag(einsum("wo", "bsf,fm->bsm", hidden, weights[4]), "mlpwo");
  const Tensor scaled = multiply(made, broadcast(weights[5], made.shape(), {}));
  return {add(y, scaled), reduce(Reduction::sum, multiply(hidden, hidden), {0, 1, 2}),
          reduce(Reduction::sum, y, {0, 1})};
}

struct Model {
  Graph graph;
  ValueId loss = -1;
  std::vector<Numbers> feeds;
};

struct Inputs {
  Tensor x, positions, segments;
};

Inputs add_inputs(Builder& b, Model& model) {
  model.feeds = {noise(DType::float64, {kRows, kLength, kWidth}, 1),
                 values(DType::int32, {kRows, kLength}, {0, 1, 2, 0, 1, 0}),
                 values(DType::int32, {kRows, kLength}, {1, 1, 1, 1, 1, 2})};
  return {input_like(b, "x", model.feeds[0]), input_like(b, "positions", model.feeds[1]),
          input_like(b, "segments", model.feeds[2])};
}

Shape stacked_shape(const Shape& shape, const Stack& stack) {
  Shape stacked = shape;
  const auto at = std::min(static_cast<std::size_t>(stack.position), shape.size());
  stacked.insert(stacked.begin() + static_cast<std::ptrdiff_t>(at), stack.sizes.begin(), stack.sizes.end());
  return stacked;
}

void add_weight_feeds(Model& model, const Stack& stack) {
  for (const Weight& weight : kWeights) {
    model.feeds.push_back(
        noise(DType::float64, stacked_shape(weight.shape, stack), 10 + static_cast<unsigned>(model.feeds.size())));
  }
}

ParameterOf unlabelled(const Shape& shape) { return {Labels(shape.size()), {}}; }

Model scanned(const Stack& stack, bool reverse, const std::set<std::size_t>& used = {0, 1, 2}) {
  Model model;
  Builder builder;
  const Inputs in = add_inputs(builder, model);
  const Body body{[](Builder& b, const Tensors& carried, const Tensors& shared) {
    Tensors weights;
    for (const Weight& weight : kWeights) {
      weights.push_back(b.parameter(weight.name, weight.shape, DType::float64, unlabelled(weight.shape)));
    }
    return layer(b, carried[0], shared[0], shared[1], weights);
  }};
  const Tensors made = repeat(builder, stack, {in.x}, {in.positions, in.segments}, body);
  add_weight_feeds(model, stack);
  Tensors outputs;
  for (const std::size_t i : used) outputs.push_back(made[i]);
  model.loss = weighted_sum(builder, outputs, model.feeds).id;
  model.graph = builder.take();
  for (Node& node : model.graph.nodes) {
    if (auto* of = std::get_if<RepeatOf>(&node.attributes)) of->reverse = reverse;
  }
  return model;
}

// A layer's part of a stacked weight. The stack's dims, which are adjacent, are merged into one and sliced.
Tensor layer_slice(Tensor stacked, const Weight& weight, const Stack& stack, std::int64_t index) {
  const auto position =
      static_cast<std::size_t>(std::min<std::int64_t>(stack.position, static_cast<std::int64_t>(weight.shape.size())));
  Shape flat(weight.shape.begin(), weight.shape.begin() + static_cast<std::ptrdiff_t>(position));
  flat.push_back(elements(stack.sizes));
  flat.insert(flat.end(), weight.shape.begin() + static_cast<std::ptrdiff_t>(position), weight.shape.end());
  return reshape(slice(reshape(stacked, flat), static_cast<int>(position), index, 1), weight.shape);
}

Tensor stack_results(Tensors layers, const Sizes& sizes) {
  Shape shape = layers.front().shape();
  shape.insert(shape.begin(), sizes.begin(), sizes.end());
  for (Tensor& one : layers) {
    Shape longer = one.shape();
    longer.insert(longer.begin(), 1);
    one = reshape(one, longer);
  }
  return reshape(concat(layers, 0), shape);
}

Model unrolled(const Stack& stack, bool reverse, const std::set<std::size_t>& used = {0, 1, 2}) {
  Model model;
  Builder builder;
  const Inputs in = add_inputs(builder, model);
  Tensors stacked;
  for (const Weight& weight : kWeights) {
    const Shape shape = stacked_shape(weight.shape, stack);
    stacked.push_back(builder.parameter(weight.name, shape, DType::float64, unlabelled(shape)));
  }
  add_weight_feeds(model, stack);
  const std::int64_t count = elements(stack.sizes);
  std::vector<Tensors> results(2, Tensors(static_cast<std::size_t>(count)));
  Tensor x = in.x;
  for (std::int64_t step = 0; step < count; ++step) {
    const std::int64_t index = reverse ? count - 1 - step : step;
    Tensors weights;
    for (std::size_t i = 0; i < kWeights.size(); ++i)
      weights.push_back(layer_slice(stacked[i], kWeights[i], stack, index));
    const Tensors made = layer(builder, x, in.positions, in.segments, weights);
    x = made[0];
    for (std::size_t i = 0; i < 2; ++i) results[i][static_cast<std::size_t>(index)] = made[i + 1];
  }
  const Tensors all{x, stack_results(results[0], stack.sizes), stack_results(results[1], stack.sizes)};
  Tensors outputs;
  for (const std::size_t i : used) outputs.push_back(all[i]);
  model.loss = weighted_sum(builder, outputs, model.feeds).id;
  model.graph = builder.take();
  return model;
}

// The loss and its gradients with respect to x and each weight.
std::vector<Numbers> run(const Model& model, const Remat& remat = {}) {
  const Differentiated made = differentiate(model.graph, model.loss, remat);
  std::vector<Numbers> results = run_graph(made.backward, model.feeds);
  results.resize(2 + kWeights.size(), Numbers(DType::float64, {}));
  return results;
}

void expect_equal(const std::vector<Numbers>& ours, const std::vector<Numbers>& theirs, double tolerance = 0) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_LE(backend::test::distance(ours[i], theirs[i]), tolerance) << (i == 0   ? "the loss"
                                                                      : i == 1 ? "x"
                                                                               : kWeights[i - 2].name);
  }
}

Stack stack_of(Sizes sizes, int position) {
  Labels labels(sizes.size(), "layers");
  return {"layers", std::move(sizes), std::move(labels), position};
}

// Expected values come from the unrolled layers. There the gradient of a stacked weight is a sum of parts padded with zeros, and in the
// repeat each part is written in place. Nothing rounds differently, so the tolerance is 0.
TEST(Repeat, IsTheLayersInARow) {
  for (const int position : {0, 1, 2}) {
    const Stack stack = stack_of({3}, position);
    expect_equal(run(scanned(stack, false)), run(unrolled(stack, false)));
  }
}

TEST(Repeat, OfOneLayerIsThatLayer) {
  const Stack stack = stack_of({1}, 1);
  expect_equal(run(scanned(stack, false)), run(unrolled(stack, false)));
}

TEST(Repeat, OverTwoDimsGoesThroughTheLastOneFirst) {
  for (const int position : {0, 1}) {
    const Stack stack = stack_of({2, 3}, position);
    expect_equal(run(scanned(stack, false)), run(unrolled(stack, false)));
  }
}

// The same layers as nested repeats: one over the inner dim of the stack, inside one over the outer dim.
Model nested(const Stack& stack) {
  Model model;
  Builder builder;
  const Inputs in = add_inputs(builder, model);
  const auto of = [&](std::size_t dim) { return Stack{"layers", {stack.sizes[dim]}, {"layers"}, stack.position}; };
  const Body inner{[](Builder& b, const Tensors& carried, const Tensors& shared) {
    Tensors weights;
    for (const Weight& weight : kWeights) {
      weights.push_back(b.parameter(weight.name, weight.shape, DType::float64, unlabelled(weight.shape)));
    }
    return layer(b, carried[0], shared[0], shared[1], weights);
  }};
  const Body outer{[&](Builder& b, const Tensors& carried, const Tensors& shared) {
    return repeat(b, of(1), carried, shared, inner);
  }};
  const Tensors made = repeat(builder, of(0), {in.x}, {in.positions, in.segments}, outer);
  add_weight_feeds(model, stack);
  model.loss = weighted_sum(builder, made, model.feeds).id;
  model.graph = builder.take();
  return model;
}

TEST(Repeat, MayStandInARepeat) {
  const Stack stack = stack_of({2, 3}, 0);
  const std::vector<Numbers> expected = run(scanned(stack, false));
  for (const Remat& remat : {Remat{}, Remat{true, {}}, Remat{false, {"context"}}})
    expect_equal(run(nested(stack), remat), expected);
}

TEST(Repeat, InReverseGoesFromTheLastLayerToTheFirst) {
  for (const Sizes& sizes : {Sizes{3}, Sizes{2, 2}}) {
    const Stack stack = stack_of(sizes, 1);
    const std::vector<Numbers> backwards = run(scanned(stack, true));
    expect_equal(backwards, run(unrolled(stack, true)));
    EXPECT_GT(backend::test::distance(backwards[0], run(scanned(stack, false))[0]), 1e-3)
        << "the order makes no difference";
  }
}

// The loss uses only the final carried value, only one of the layers' two results, or both of these results.
TEST(Repeat, HasGradientsWhenOnlySomeOfItsResultsHaveThem) {
  const Stack stack = stack_of({3}, 1);
  for (const std::set<std::size_t>& used : {std::set<std::size_t>{0}, {1}, {2}, {1, 2}}) {
    expect_equal(run(scanned(stack, false, used)), run(unrolled(stack, false, used)));
  }
}

const std::set<std::string> kTags{"query_proj", "context", "out_proj", "mlpwi_0", "mlpwo"};

std::vector<Remat> policies() {
  std::vector<Remat> all{{false, {}}, {true, {}}, {false, kTags}, {false, {"no_such_value"}}};
  for (const std::string& tag : kTags) {
    all.push_back({false, {tag}});
    std::set<std::string> others = kTags;
    others.erase(tag);
    all.push_back({false, others});
  }
  return all;
}

TEST(Remat, ChangesNoBitOfTheGradients) {
  for (const bool reverse : {false, true}) {
    const Model model = scanned(stack_of({2, 2}, 1), reverse);
    const std::vector<Numbers> expected = run(model);
    for (const Remat& remat : policies()) expect_equal(run(model, remat), expected);
  }
}

// The body of the last repeat of the graph, which is the backward pass.
const Graph& backward_body(const Graph& graph) {
  const auto found =
      std::find_if(graph.nodes.rbegin(), graph.nodes.rend(), [](const Node& node) { return node.op == Op::repeat; });
  return *body_of(*found);
}

std::ptrdiff_t count(const Graph& graph, Op op) {
  return std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) { return node.op == op; });
}

TEST(Remat, ComputesAgainWhatIsNotSaved) {
  const Model model = scanned(stack_of({3}, 1), false);
  const auto body = [&](const Remat& remat) {
    return backward_body(differentiate(model.graph, model.loss, remat).backward);
  };
  // With everything saved, the backward pass has two products for each of the layer's four, and the gradient of attention.
  const Graph everything = body({true, {}});
  EXPECT_EQ(count(everything, Op::einsum), 8);
  EXPECT_EQ(count(everything, Op::attention), 0);
  EXPECT_EQ(count(everything, Op::unary), 1) << "what costs as much to read is made again";
  EXPECT_EQ(count(everything, Op::attention_grad), 1);
  // With nothing saved, it also computes all of the layer's own products again.
  EXPECT_EQ(count(body({}), Op::einsum), 12);
  EXPECT_EQ(count(body({}), Op::attention), 1);
  // Products whose tags are saved are not computed again.
  EXPECT_EQ(count(body({false, {"mlpwi_0"}}), Op::einsum), 11);
  EXPECT_EQ(count(body({false, {"context"}}), Op::attention), 0);
  EXPECT_EQ(count(body({false, kTags}), Op::einsum), 8);
  EXPECT_EQ(count(body({false, kTags}), Op::attention), 0);
}

TEST(Remat, SavesAStackOfWhatIsNamedAndOfWhatComesIn) {
  const Model model = scanned(stack_of({3}, 1), false);
  const Graph saving = with_saved_values(model.graph, {false, {"query_proj", "mlpwo"}});
  const auto repeat =
      std::find_if(saving.nodes.begin(), saving.nodes.end(), [](const Node& node) { return node.op == Op::repeat; });
  const auto& of = std::get<RepeatOf>(repeat->attributes);
  ASSERT_EQ(of.saved.size(), 3u);
  std::vector<Shape> shapes;
  for (auto result = repeat->results.end() - 3; result != repeat->results.end(); ++result)
    shapes.push_back(saving.value(*result).shape);
  EXPECT_EQ(shapes, (std::vector<Shape>{
                        {3, kRows, kLength, kWidth}, {3, kRows, kLength, kHeads, kDim}, {3, kRows, kLength, kWidth}}));
}

// y_i = y_(i-1) * w_i + 2 z, with z shared by all layers.
Model with_shared_number(const Sizes& sizes) {
  Model model;
  Builder builder;
  model.feeds = {noise(DType::float64, {5}, 1), noise(DType::float64, {5}, 2)};
  const Tensor x = input_like(builder, "x", model.feeds[0]);
  const Tensor z = input_like(builder, "z", model.feeds[1]);
  const Stack stack = stack_of(sizes, 0);
  const Body body{[](Builder& b, const Tensors& carried, const Tensors& shared) {
    const Tensor w = b.parameter("w", {5}, DType::float64, {{""}, {}});
    return Tensors{add(multiply(carried[0], w), scale(shared[0], 2))};
  }};
  const Tensors made = repeat(builder, stack, {x}, {z}, body);
  model.feeds.push_back(noise(DType::float64, stacked_shape({5}, stack), 3));
  model.loss = weighted_sum(builder, made, model.feeds).id;
  model.graph = builder.take();
  return model;
}

TEST(Repeat, SumsTheGradientOfWhatAllLayersRead) {
  for (const Sizes& sizes : {Sizes{4}, Sizes{2, 2}}) {
    const Model model = with_shared_number(sizes);
    const Differentiated made = differentiate(model.graph, model.loss, {});
    const std::vector<Numbers> results = run_graph(made.backward, model.feeds);
    for (std::int64_t i = 0; i < 5; ++i) {
      // Each layer's 2 z is multiplied by the weights of the layers after it.
      double expected = 0;
      double behind = 2 * model.feeds[3].at(i);
      for (std::int64_t l = 4; l-- > 0;) {
        expected += behind;
        behind *= model.feeds[2].at(l * 5 + i);
      }
      EXPECT_NEAR(results[2].at(i), expected, 1e-12);
    }
  }
}

// Two carried values, of which only the first enters the loss: x_i = silu(x_(i-1) w_i) + a_(i-1), a_i = 2 a_(i-1). Expected slopes come
// from finite differences.
TEST(Repeat, CarriesSeveralValues) {
  Model model;
  Builder builder;
  model.feeds = {noise(DType::float64, {3, 5}, 1), noise(DType::float64, {3, 5}, 2)};
  const Tensor x = input_like(builder, "x", model.feeds[0]);
  const Tensor a = input_like(builder, "a", model.feeds[1]);
  const Body body{[](Builder& b, const Tensors& carried, const Tensors&) {
    const Tensor w = b.parameter("w", {5, 5}, DType::float64, {{"", ""}, {}});
    return Tensors{add(unary(Unary::silu, einsum("y", "ab,bc->ac", carried[0], w)), carried[1]), scale(carried[1], 2)};
  }};
  const Tensors made = repeat(builder, stack_of({3}, 1), {x, a}, {}, body);
  model.feeds.push_back(noise(DType::float64, {5, 3, 5}, 3));
  model.loss = weighted_sum(builder, {made[0]}, model.feeds).id;
  model.graph = builder.take();
  const Differentiated of = differentiate(model.graph, model.loss, {});
  const std::vector<Numbers> results = run_graph(of.backward, model.feeds);
  for (std::size_t feed = 0; feed < 3; ++feed) {
    const Numbers random = noise(DType::float64, model.feeds[feed].shape, 9);
    std::vector<double> direction;
    double along = 0;
    for (std::int64_t i = 0; i < random.count(); ++i) {
      direction.push_back(random.at(i));
      along += random.at(i) * results[feed + 1].at(i);
    }
    EXPECT_NEAR(along, slope(of.forward, model.feeds, feed, direction, 1e-5), 1e-7) << feed;
  }
}

}  // namespace
}  // namespace moesh::graph::test
