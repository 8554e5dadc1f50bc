#include "run/footprint.h"

#include "run/executor.h"

namespace moesh::run {
namespace {

using graph::Graph;
using graph::Node;

// What one device sees: the largest shard of every value.
Graph on_one_device(const Graph& graph, const mesh::Mesh& mesh) {
  Graph local = graph;
  for (graph::Value& value : local.values) {
    value.shape = sharding::shard_shape(value.shape, value.spec, mesh);
    value.spec = {};
  }
  for (Node& node : local.nodes) {
    const auto go_into = [&](auto* of) {
      if (of != nullptr) of->body = std::make_shared<const Graph>(on_one_device(*of->body, mesh));
    };
    go_into(std::get_if<graph::RepeatOf>(&node.attributes));
    go_into(std::get_if<graph::RegionOf>(&node.attributes));
  }
  return local;
}

struct Peak {
  std::int64_t values = 0;
  std::int64_t taken = 0;
};

Peak peak_of(const Graph& graph, const mesh::Mesh& mesh, const std::function<bool(const Node&)>& stays) {
  Workers workers(1);
  const auto pool = Pool::counting();
  std::vector<Placed> feeds;
  std::vector<Placed> kept;
  for (const Node& node : graph.nodes) {
    if (!graph::is_root(node)) continue;
    const graph::Value& value = graph.value(node.results.front());
    feeds.push_back(unfilled(value.shape, value.dtype, value.spec, mesh, *pool));
    if (stays(node)) kept.push_back(feeds.back());
  }
  Executor(workers, pool, mesh).run(graph, std::move(feeds));
  return {static_cast<std::int64_t>(pool->peak_bytes()), static_cast<std::int64_t>(pool->peak_taken())};
}

}  // namespace

Footprint footprint_of(const Graph& graph, const mesh::Mesh& mesh, const std::function<bool(const Node&)>& stays) {
  const Peak process = peak_of(graph, mesh, stays);
  return {peak_of(on_one_device(graph, mesh), mesh::Mesh({}), stays).values, process.values, process.taken};
}

}  // namespace moesh::run
