// Runs a graph node by node on the buffers of one device.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "graph/graph.h"
#include "run/array.h"
#include "run/workers.h"

namespace moesh::run {

class Executor {
 public:
  // Called with each node's results as they are made, e.g. to find the first that is not finite.
  using Watch = std::function<void(const graph::Node&, const std::vector<Array>&)>;

  Executor(Workers& workers, std::shared_ptr<Pool> pool) : workers_(workers), pool_(std::move(pool)) {}

  void set_watch(Watch watch) { watch_ = std::move(watch); }
  Pool& pool() { return *pool_; }

  // `feeds`: a value for each input and parameter node, in the graph's order. Returns the graph's results.
  std::vector<Array> run(const graph::Graph& graph, std::vector<Array> feeds);

 private:
  using Values = std::vector<Array>;

  void run_node(const graph::Graph& graph, const graph::Node& node, Values& values);
  void run_kernel(const graph::Graph& graph, const graph::Node& node, Values& values);
  void run_region(const graph::Node& node, Values& values);
  void run_repeat(const graph::Graph& graph, const graph::Node& node, Values& values);
  const std::vector<std::vector<graph::ValueId>>& last_uses(const graph::Graph& graph);

  Workers& workers_;
  std::shared_ptr<Pool> pool_;
  Watch watch_;
  std::map<const graph::Graph*, std::vector<std::vector<graph::ValueId>>> last_uses_;
};

}  // namespace moesh::run
