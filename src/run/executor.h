// Runs a graph node by node, each for all devices of this process.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "graph/graph.h"
#include "mesh/mesh.h"
#include "run/placed.h"
#include "run/workers.h"

namespace moesh::run {

class Executor {
 public:
  // Called with each node's results as they are made, e.g. to find the first that is not finite.
  using Watch = std::function<void(const graph::Node&, const std::vector<Placed>&)>;

  // A graph that was not partitioned runs on a mesh of one device.
  Executor(Workers& workers, std::shared_ptr<Pool> pool, mesh::Mesh mesh = mesh::Mesh({}))
      : workers_(workers), pool_(std::move(pool)), mesh_(std::move(mesh)) {}

  void set_watch(Watch watch) { watch_ = std::move(watch); }
  // Adds what each device sends in regions to `sent`, while set.
  void set_traffic(std::vector<double>* sent) { traffic_ = sent; }
  Pool& pool() { return *pool_; }

  // `feeds`: a value for each input and parameter node, in the graph's order. Returns the graph's results.
  std::vector<Placed> run(const graph::Graph& graph, std::vector<Placed> feeds);
  // The same on one device.
  std::vector<Array> run(const graph::Graph& graph, std::vector<Array> feeds);

  const mesh::Mesh& mesh() const { return mesh_; }

 private:
  using Values = std::vector<Placed>;

  void run_node(const graph::Graph& graph, const graph::Node& node, Values& values);
  void run_op(const graph::Graph& graph, const graph::Node& node, Values& values);
  void run_region(const graph::Graph& graph, const graph::Node& node, Values& values);
  void run_repeat(const graph::Graph& graph, const graph::Node& node, Values& values);
  const std::vector<std::vector<graph::ValueId>>& last_uses(const graph::Graph& graph);

  Workers& workers_;
  std::shared_ptr<Pool> pool_;
  mesh::Mesh mesh_;
  Watch watch_;
  std::vector<double>* traffic_ = nullptr;
  std::map<const graph::Graph*, std::vector<std::vector<graph::ValueId>>> last_uses_;
};

}  // namespace moesh::run
