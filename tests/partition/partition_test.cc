// Random graphs on random meshes: the partitioned program computes the same values as the graph.
#include "partition/partition.h"

#include <cmath>
#include <random>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/autodiff.h"
#include "graph/print.h"
#include "partition/collectives.h"
#include "run/program.h"
#include "tests/support.h"

namespace moesh::partition {
namespace {

using graph::Builder;
using graph::Op;
using graph::Tensor;
using run::Array;
using run::Placed;
using sharding::AxisIndex;
using sharding::AxisList;
using sharding::Spec;

// Sizes of the dims of the random graphs. A dim is named by a letter, which is also its label.
constexpr std::int64_t kSizes[] = {8, 4, 6, 3};
constexpr int kLetters = 4;

class Draw {
 public:
  explicit Draw(unsigned seed) : engine_(seed) {}
  int below(int count) { return static_cast<int>(engine_() % static_cast<unsigned>(count)); }
  double real() { return std::uniform_real_distribution<double>(-1, 1)(engine_); }

 private:
  std::mt19937 engine_;
};

struct Value {
  Tensor tensor;
  std::string letters;  // one per dim
};

// A random graph of a dozen ops on values whose dims are named by letters.
class RandomGraph {
 public:
  explicit RandomGraph(Draw& draw) : draw_(draw) {
    for (int i = 0; i < 3; ++i) values_.push_back(parameter(fmt::format("p{}", i), letters(1 + draw_.below(3))));
    for (int i = 0; i < 12; ++i) grow();
    Tensor loss;
    for (std::size_t i = values_.size() - 3; i < values_.size(); ++i) {
      builder_.mark_result(values_[i].tensor);
      const Tensor sum = total(values_[i].tensor);
      loss = loss ? graph::add(loss, sum) : sum;
    }
    builder_.mark_result(loss);
    std::vector<Tensor> parameters;
    for (int i = 0; i < 3; ++i) parameters.push_back(values_[static_cast<std::size_t>(i)].tensor);
    for (const Tensor& gradient : graph::gradients(loss, parameters)) builder_.mark_result(gradient);
  }

  graph::Graph take() { return builder_.take(); }

 private:
  static std::int64_t size(char letter) { return kSizes[letter - 'a']; }
  static Shape shape(const std::string& letters) {
    Shape made;
    for (const char c : letters) made.push_back(size(c));
    return made;
  }
  static Labels labels(const std::string& letters) {
    Labels made;
    for (const char c : letters) made.emplace_back(1, c);
    return made;
  }

  std::string letters(int count) {
    std::string all = "abcd";
    std::string made;
    while (static_cast<int>(made.size()) < count) {
      const auto at = static_cast<std::size_t>(draw_.below(static_cast<int>(all.size())));
      made.push_back(all[at]);
      all.erase(at, 1);
    }
    return made;
  }

  Value parameter(const std::string& name, const std::string& letters) {
    return {builder_.parameter(name, shape(letters), DType::float64, {labels(letters), {}}), letters};
  }

  Value& any() { return values_[static_cast<std::size_t>(draw_.below(static_cast<int>(values_.size())))]; }

  static Tensor total(Tensor x) {
    std::vector<int> dims;
    for (int dim = 0; dim < x.rank(); ++dim) dims.push_back(dim);
    return dims.empty() ? x : graph::reduce(graph::Reduction::sum, x, dims);
  }

  void grow() {
    const Value x = any();
    const int rank = x.tensor.rank();
    switch (draw_.below(10)) {
      case 0: values_.push_back({graph::unary(graph::Unary::sigmoid, x.tensor), x.letters}); return;
      case 1: values_.push_back({graph::scale(x.tensor, 0.5), x.letters}); return;
      case 2: return product(x, any());
      case 3: return product(x, any());
      case 4: return sum(x);
      case 5: {
        ConstraintOf of{labels(x.letters)};
        of.unreduced = draw_.below(2) == 0;
        values_.push_back({graph::constrain("c", x.tensor, of), x.letters});
        return;
      }
      case 6: {
        if (rank < 2) return;
        values_.push_back({graph::reduce(graph::Reduction::sum, x.tensor, {rank - 1}), x.letters.substr(0, x.letters.size() - 1)});
        return;
      }
      case 7: {
        if (rank < 1) return;
        const Tensor first = graph::slice(x.tensor, 0, 0, 1);
        const Tensor rest = graph::slice(x.tensor, 0, 1, x.tensor.size(0) - 1);
        values_.push_back({graph::concat({rest, first}, 0), x.letters});
        return;
      }
      case 8: {
        if (rank < 1) return;
        values_.push_back({graph::softmax(x.tensor), x.letters});
        return;
      }
      default: {
        if (rank < 2) return;
        std::vector<int> order(static_cast<std::size_t>(rank));
        for (int i = 0; i < rank; ++i) order[static_cast<std::size_t>(i)] = rank - 1 - i;
        values_.push_back({graph::transpose(x.tensor, order), std::string(x.letters.rbegin(), x.letters.rend())});
      }
    }
  }

  using ConstraintOf = graph::ConstraintOf;

  // An einsum that sums over some of the letters that both operands have.
  void product(const Value& a, const Value& b) {
    std::string all = a.letters;
    for (const char c : b.letters) {
      if (all.find(c) == std::string::npos) all.push_back(c);
    }
    std::string out;
    for (const char c : all) {
      const bool shared = a.letters.find(c) != std::string::npos && b.letters.find(c) != std::string::npos;
      if (!shared || draw_.below(2) == 0) out.push_back(c);
    }
    if (out.size() > 3) return;
    const std::string equation = a.letters + "," + b.letters + "->" + out;
    values_.push_back({graph::scale(graph::einsum("e", equation, a.tensor, b.tensor), 0.2), out});
  }

  // Adds or multiplies with another value of the same dims, or adds the value to itself.
  void sum(const Value& a) {
    for (const Value& b : values_) {
      if (b.letters == a.letters && b.tensor.id != a.tensor.id) {
        values_.push_back({draw_.below(2) == 0 ? graph::add(a.tensor, b.tensor) : graph::multiply(a.tensor, b.tensor), a.letters});
        return;
      }
    }
    values_.push_back({graph::add(a.tensor, a.tensor), a.letters});
  }

  Draw& draw_;
  Builder builder_;
  std::vector<Value> values_;
};

mesh::Mesh random_mesh(Draw& draw) {
  const std::vector<std::vector<std::int64_t>> sizes{{2}, {4}, {8}, {2, 2}, {2, 4}, {2, 2, 2}, {3}, {2, 3}};
  const auto& chosen = sizes[static_cast<std::size_t>(draw.below(static_cast<int>(sizes.size())))];
  std::vector<mesh::Axis> axes;
  for (std::size_t i = 0; i < chosen.size(); ++i) axes.push_back({fmt::format("x{}", i), chosen[i], 1});
  return mesh::Mesh(axes);
}

std::vector<config::AxisRule> random_rules(Draw& draw, const mesh::Mesh& mesh) {
  std::vector<config::AxisRule> rules;
  for (int i = 0; i < 6; ++i) {
    config::AxisRule rule;
    rule.label = std::string(1, static_cast<char>('a' + draw.below(kLetters)));
    for (const mesh::Axis& axis : mesh.axes()) {
      if (draw.below(2) == 0) rule.axes.push_back(axis.name);
    }
    rules.push_back(rule);
  }
  return rules;
}

Spec random_spec(Draw& draw, const Shape& shape, const mesh::Mesh& mesh) {
  Spec spec = sharding::whole_spec(shape.size());
  for (AxisIndex axis = 0; axis < mesh.axes().size(); ++axis) {
    if (shape.empty() || draw.below(3) == 0) continue;
    const auto dim = static_cast<std::size_t>(draw.below(static_cast<int>(shape.size())));
    spec.dims[dim].push_back(axis);
    if (shape[dim] % sharding::shards(spec.dims[dim], mesh) != 0) spec.dims[dim].pop_back();
  }
  return spec;
}

std::vector<const graph::Node*> roots_of(const graph::Graph& graph) {
  std::vector<const graph::Node*> roots;
  for (const graph::Node& node : graph.nodes) {
    if (node.op == Op::parameter || node.op == Op::input) roots.push_back(&node);
  }
  return roots;
}

double difference(const Array& a, const Array& b) {
  double worst = 0;
  for (std::int64_t i = 0; i < a.view.count(); ++i) {
    const double x = a.as<double>()[i];
    const double y = b.as<double>()[i];
    worst = std::max(worst, std::abs(x - y) / (1 + std::abs(y)));
  }
  return worst;
}

// As in a training step, puts the nodes from a random one on into the update phase, where the partitioner places them freely.
void free_last_nodes(Draw& draw, graph::Graph& graph) {
  const auto count = static_cast<int>(graph.nodes.size());
  for (auto i = static_cast<std::size_t>(draw.below(2) == 0 ? 0 : draw.below(2 * count)); i < graph.nodes.size(); ++i) {
    graph.nodes[i].phase = graph::Phase::update;
  }
}

// Runs a random graph whole and partitioned, and compares the results. In float64 only the order of summation differs.
void hold(unsigned seed, const mesh::Topology& target, backend::Workers& workers) {
  Draw draw(seed);
  const mesh::Mesh mesh = random_mesh(draw);
  const std::vector<config::AxisRule> rules = random_rules(draw, mesh);
  graph::Graph graph = RandomGraph(draw).take();
  free_last_nodes(draw, graph);
  const auto pool = run::Pool::create();
  std::vector<Array> feeds;
  std::vector<Placed> pieces;
  std::vector<Spec> roots;
  for (const graph::Node* node : roots_of(graph)) {
    const Shape& shape = graph.value(node->results[0]).shape;
    feeds.push_back(pool->allocate(shape, DType::float64));
    for (std::int64_t i = 0; i < feeds.back().view.count(); ++i) feeds.back().as<double>()[i] = draw.real();
    roots.push_back(random_spec(draw, shape, mesh));
    pieces.push_back(run::place(feeds.back(), roots.back(), mesh, *pool));
  }
  std::vector<std::optional<Spec>> results;
  for (const graph::ValueId id : graph.results) {
    results.push_back(draw.below(2) == 0 ? std::nullopt : std::optional(random_spec(draw, graph.value(id).shape, mesh)));
  }
  const PartitionRequest request{mesh, target, rules};
  const Partitioned made = partition(graph, roots, results, request);
  const std::vector<Array> expected = run::evaluate(graph, feeds, workers);
  const std::vector<Placed> shards = run::evaluate(made.graph, pieces, mesh, workers);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (results[i]) { ASSERT_EQ(shards[i].spec, *results[i]) << "seed " << seed; }
    ASSERT_TRUE(shards[i].spec.partial.empty()) << "seed " << seed;
    ASSERT_LT(difference(run::gathered(shards[i], mesh, *pool, workers), expected[i]), 1e-11)
        << "seed " << seed << ", result " << i << "\n" << graph::to_text(graph) << "\n" << graph::to_text(made.graph);
  }
}

TEST(PartitionSlow, ComputesWhatTheGraphComputes) {
  backend::Workers workers(1);
  const mesh::Topology target = mesh::find_topology("cpu-8", 1);
  for (unsigned seed = 0; seed < 3000; ++seed) hold(seed, target, workers);
}

TEST(Partition, ComputesWhatTheGraphComputesOnOtherMachines) {
  backend::Workers workers(1);
  // Fast and slow links lead to different choices.
  for (const char* name : {"v5p-16", "h100-8"}) {
    const mesh::Topology target = mesh::find_topology(name, 1);
    for (unsigned seed = 5000; seed < 5100; ++seed) hold(seed, target, workers);
  }
}

// A sum of rounded parts is less accurate than the rounded sum, so a sum over devices comes before a narrowing cast, though it would send
// fewer bytes after it.
TEST(Partition, AddsUpBeforeItRounds) {
  const mesh::Mesh mesh({{"x", 4, 1}});
  const mesh::Topology target = mesh::find_topology("cpu-4", 1);
  const std::vector<config::AxisRule> rules;
  Builder builder;
  const Tensor a = builder.input("a", {8, 8}, DType::float32, {"", ""});
  const Tensor b = builder.input("b", {8, 8}, DType::float32, {"", ""});
  builder.mark_result(graph::cast(graph::einsum("product", "ik,kj->ij", a, b), DType::bfloat16));
  const Spec rows{{{0}, {}}, {}};
  const Spec columns{{{}, {0}}, {}};
  const PartitionRequest request{mesh, target, rules};
  const graph::Graph made = partition(builder.take(), {columns, rows}, {rows}, request).graph;
  const auto place = [&](Op op) {
    return std::find_if(made.nodes.begin(), made.nodes.end(), [&](const graph::Node& node) { return node.op == op; });
  };
  ASSERT_NE(place(Op::reshard), made.nodes.end());
  EXPECT_EQ(std::get<graph::ReshardOf>(place(Op::reshard)->attributes).kind, graph::ReshardOf::Kind::reduce_scatter);
  EXPECT_LT(place(Op::reshard), place(Op::cast));
}

TEST(Partition, SaysWhatItCannotReach) {
  const mesh::Mesh mesh({{"x", 4, 1}});
  const mesh::Topology target = mesh::find_topology("cpu-4", 1);
  const std::vector<config::AxisRule> rules;
  Builder builder;
  const graph::Scope scope(builder, "there");
  builder.mark_result(graph::scale(builder.input("a", {8}, DType::float32, {""}), 2));
  const PartitionRequest request{mesh, target, rules};
  EXPECT_THAT(test::message_of([&] { partition(builder.take(), {Spec{{{}}, {}}}, {Spec{{{}}, {0}}}, request); }),
              ::testing::HasSubstr("no collectives lead from one layout to another"));
}

}  // namespace
}  // namespace moesh::partition
