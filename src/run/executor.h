// Runs a graph node by node, each for all devices of this process.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "graph/graph.h"
#include "mesh/mesh.h"
#include "run/placed.h"
#include "run/workers.h"

namespace moesh::run {

// What a run tells while it goes on.
struct Observers {
  // Called with each node's results as they are made, e.g. to find the first that is not finite.
  std::function<void(const graph::Node&, const std::vector<Placed>&)> watch = nullptr;
  // Grows by the bytes that each device sends in regions.
  std::vector<double>* sent = nullptr;
};

class Executor {
 public:
  // A graph that was not partitioned runs on a mesh of one device.
  Executor(Workers& workers, std::shared_ptr<Pool> pool, mesh::Mesh mesh = mesh::Mesh({}))
      : workers_(workers), pool_(std::move(pool)), mesh_(std::move(mesh)) {}

  Pool& pool() { return *pool_; }

  // `feeds`: a value for each input and parameter node, in the graph's order. Returns the graph's results.
  std::vector<Placed> run(const graph::Graph& graph, std::vector<Placed> feeds, const Observers& observers = {});
  // The same on one device.
  std::vector<Array> run(const graph::Graph& graph, std::vector<Array> feeds);

  const mesh::Mesh& mesh() const { return mesh_; }

 private:
  // A graph that is being run.
  struct Frame {
    const graph::Graph& graph;
    const Observers& observers;
    std::vector<std::size_t> last_uses;  // of each value: the node after which nobody needs it
    std::vector<Placed> values;

    Placed& value(graph::ValueId id) { return values[static_cast<std::size_t>(id)]; }
  };

  void run_node(const graph::Node& node, Frame& frame);
  void run_reshard(const graph::Node& node, Frame& frame);
  void run_all_sum(const graph::Node& node, Frame& frame);
  void run_op(const graph::Node& node, Frame& frame);
  void run_region(const graph::Node& node, Frame& frame);
  void run_repeat(const graph::Node& node, Frame& frame);
  void count_traffic(const graph::Node& node, Frame& frame) const;

  Workers& workers_;
  std::shared_ptr<Pool> pool_;
  mesh::Mesh mesh_;
};

}  // namespace moesh::run
