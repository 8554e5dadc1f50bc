// Support for tests of gradients: runs graphs on numbers, and computes slopes by finite differences.
#pragma once

#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "graph/autodiff.h"
#include "graph/builder.h"
#include "graph/rewrite.h"
#include "run/program.h"
#include "tests/backend/cpu/kernel_support.h"

namespace moesh::graph::test {

using Numbers = backend::test::Tensor;  // a dense value of any type, outside of graphs
using backend::test::draws;
using backend::test::filled;
using backend::test::noise;
using backend::test::values;

inline std::vector<Numbers> run_graph(const Graph& graph, const std::vector<Numbers>& feeds) {
  static backend::Workers workers(2);
  const auto pool = run::Pool::create();
  std::vector<run::Array> fed;
  for (const Numbers& feed : feeds) {
    fed.push_back(pool->allocate(feed.shape, feed.dtype));
    std::memcpy(fed.back().view.data, feed.bytes.data(), feed.bytes.size());
  }
  std::vector<Numbers> made;
  for (const run::Array& array : run::evaluate(graph, fed, workers)) {
    made.emplace_back(array.view.dtype, array.view.shape);
    std::memcpy(made.back().bytes.data(), array.view.data, made.back().bytes.size());
  }
  return made;
}

// Runs a graph with the plain kernels only. Repeats are not supported.
inline std::vector<Numbers> run_plainly(const Graph& graph, const std::vector<Numbers>& feeds) {
  backend::Workers workers(1);
  std::vector<Numbers> values;
  for (const Value& value : graph.values) values.emplace_back(value.dtype, value.shape);
  const auto at = [&](ValueId id) -> Numbers& { return values[static_cast<std::size_t>(id)]; };
  std::size_t fed = 0;
  for (const Node& node : graph.nodes) {
    if (node.op == Op::input || node.op == Op::parameter) {
      at(node.results[0]) = feeds[fed++];
    } else if (node.op == Op::constraint || node.op == Op::reshape) {
      at(node.results[0]).bytes = at(node.operands[0]).bytes;
    } else if (node.op == Op::region) {
      std::vector<Numbers> operands;
      for (const ValueId id : node.operands) operands.push_back(at(id));
      const std::vector<Numbers> made = run_plainly(*body_of(node), operands);
      for (std::size_t i = 0; i < made.size(); ++i) at(node.results[i]) = made[i];
    } else {
      std::vector<backend::View> operands, results;
      for (const ValueId id : node.operands) operands.push_back(at(id).view());
      for (const ValueId id : node.results) results.push_back(at(id).view());
      const backend::KernelCall call{node.attributes, operands, results, workers};
      const std::array<char, 1> is_here{0};
      const transport::RowCollective collective = transport::find_row_collective(node.op);
      collective != nullptr ? collective(call, is_here) : backend::reference::find_kernel(node.op)(call);
    }
  }
  std::vector<Numbers> results;
  for (const ValueId id : graph.results) results.push_back(at(id));
  return results;
}

// Adds an input with the shape and type of the value.
inline Tensor input_like(Builder& builder, const std::string& name, const Numbers& value) {
  return builder.input(name, value.shape, value.dtype, Labels(value.shape.size()));
}

// The sum of all floating tensors, each multiplied by random weights, which are appended to the feeds.
inline Tensor weighted_sum(Builder& builder, const std::vector<Tensor>& outputs, std::vector<Numbers>& feeds) {
  Tensor sum;
  for (const Tensor& output : outputs) {
    if (!is_floating(output.dtype())) continue;
    feeds.push_back(noise(output.dtype(), output.shape(), 1000 + static_cast<unsigned>(feeds.size())));
    Tensor term = multiply(output, input_like(builder, fmt::format("weights{}", feeds.size()), feeds.back()));
    std::vector<int> all;
    for (int dim = 0; dim < term.rank(); ++dim) all.push_back(dim);
    if (!all.empty()) term = reduce(Reduction::sum, term, all);
    sum = sum ? add(sum, term) : term;
  }
  return sum;
}

// A scalar, and its gradients with respect to some inputs and parameters of its graph.
struct Differentiated {
  Graph forward;                // its one result is the scalar
  Graph backward;               // the scalar, then the gradients
  std::vector<std::size_t> of;  // the feeds that have gradients
};

// Differentiates the scalar with respect to all floating inputs and parameters.
inline Differentiated differentiate(const Graph& graph, ValueId scalar, const Remat& remat) {
  Differentiated made{graph, {}, {}};
  made.forward.results = {scalar};
  made.forward.result_names.clear();
  Builder builder(with_saved_values(made.forward, remat));
  std::vector<Tensor> roots;
  std::size_t feed = 0;
  for (const Node& node : graph.nodes) {
    if (node.op != Op::input && node.op != Op::parameter) continue;
    const Tensor root = builder.tensor(node.results.front());
    if (is_floating(root.dtype())) {
      roots.push_back(root);
      made.of.push_back(feed);
    }
    ++feed;
  }
  for (const Tensor& gradient : gradients(builder.tensor(scalar), roots)) builder.mark_result(gradient);
  made.backward = without_dead_nodes(builder.take());
  return made;
}

// The slope of the scalar along `direction` of one feed, by central differences.
inline double slope(const Graph& forward, const std::vector<Numbers>& feeds, std::size_t feed,
                    const std::vector<double>& direction, double step) {
  const auto at = [&](double distance) {
    std::vector<Numbers> moved = feeds;
    for (std::size_t i = 0; i < direction.size(); ++i) {
      const auto k = static_cast<std::int64_t>(i);
      moved[feed].set(k, feeds[feed].at(k) + distance * direction[i]);
    }
    return run_graph(forward, moved)[0].at(0);
  };
  return (at(step) - at(-step)) / (2 * step);
}

}  // namespace moesh::graph::test
