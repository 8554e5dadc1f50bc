#include "partition/as_laid.h"

#include <algorithm>
#include <map>
#include <string>

#include "graph/rewrite.h"

namespace moesh::partition {
namespace {

using sharding::Spec;

// The specs of what the layout names.
std::map<std::string, Spec> places_of(const sharding::Layout& layout) {
  std::map<std::string, Spec> specs;
  for (const auto* tensors : {&layout.parameters, &layout.moments, &layout.states}) {
    for (const sharding::LaidTensor& tensor : *tensors) {
      specs[tensor.path] = sharding::without_size_one(tensor.spec, layout.mesh);
    }
  }
  return specs;
}

// The specs of the graph's roots. A leading dim of microbatches is not sharded.
std::vector<Spec> roots_of(const graph::Graph& graph, const sharding::Layout& layout, const std::map<std::string, Spec>& places) {
  const Spec batch = sharding::without_size_one(layout.input.spec, layout.mesh);
  std::vector<Spec> specs;
  for (const graph::Node& node : graph.nodes) {
    if (!graph::is_root(node)) continue;
    const std::size_t rank = graph.value(node.results.front()).shape.size();
    const auto place = places.find(node.path);
    const bool is_batch = graph::is_input(node, graph::InputOf::Kind::batch);
    Spec spec = place != places.end() ? place->second : is_batch ? batch : sharding::whole_spec(rank);
    spec.dims.insert(spec.dims.begin(), rank - spec.dims.size(), {});
    specs.push_back(std::move(spec));
  }
  return specs;
}

std::vector<std::optional<Spec>> results_of(const graph::Graph& graph, const std::map<std::string, Spec>& places,
                                            const std::vector<std::string>& whole) {
  std::vector<std::optional<Spec>> specs;
  for (std::size_t i = 0; i < graph.results.size(); ++i) {
    const auto place = places.find(graph.result_names[i]);
    const bool is_whole = std::find(whole.begin(), whole.end(), graph.result_names[i]) != whole.end();
    specs.push_back(place != places.end() ? std::optional(place->second)
                    : is_whole            ? std::optional(sharding::whole_spec(graph.value(graph.results[i]).shape.size()))
                                          : std::nullopt);
  }
  return specs;
}

}  // namespace

Partitioned partition_as_laid(graph::Graph graph, const sharding::Layout& layout, const mesh::Topology& target,
                              const std::vector<std::string>& whole) {
  if (layout.mesh.devices() == 1) {
    graph::Graph made = graph::without_constraints(graph);
    return {std::move(made), std::move(graph), {}};
  }
  const std::map<std::string, Spec> places = places_of(layout);
  return partition(graph, roots_of(graph, layout, places), results_of(graph, places, whole),
                   {layout.mesh, target, layout.rules, layout.explicit_mode});
}

}  // namespace moesh::partition
