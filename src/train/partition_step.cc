#include "train/partition_step.h"

#include <map>

namespace moesh::train {
namespace {

using graph::Graph;
using graph::Node;
using graph::Op;
using sharding::Spec;

// Where what has a name lies; all else is whole on every device.
class Places {
 public:
  explicit Places(const sharding::Layout& layout) : layout_(layout) {
    for (const sharding::LaidTensor& tensor : layout.parameters) add(tensor.path, tensor.spec);
    for (const sharding::LaidTensor& tensor : layout.parameters) add(tensor.path + "'", tensor.spec);
    for (const sharding::LaidTensor& tensor : layout.moments) add(tensor.path, tensor.spec);
    for (const char* name : {"inputs", "targets", "inputs_position", "inputs_segmentation", "targets_segmentation"}) {
      add(name, layout.input.spec);
    }
  }

  Spec of(const std::string& name, std::size_t rank) const {
    const auto found = specs_.find(name);
    if (found != specs_.end()) return found->second;
    Spec whole;
    whole.dims.resize(rank);
    return whole;
  }

  std::vector<Spec> of_roots(const Graph& graph) const {
    std::vector<Spec> specs;
    for (const Node& node : graph.nodes) {
      if (node.op != Op::input && node.op != Op::parameter) continue;
      specs.push_back(of(node.path, graph.value(node.results.front()).shape.size()));
    }
    return specs;
  }

 private:
  void add(const std::string& name, const Spec& spec) { specs_[name] = sharding::without_size_one(spec, layout_.mesh); }

  const sharding::Layout& layout_;
  std::map<std::string, Spec> specs_;
};

}  // namespace

StepPrograms partition_step(const Graph& gradients, const Graph& update, const std::vector<Trained>& parameters,
                            std::size_t model_results, const sharding::Layout& layout, const mesh::Topology& target) {
  const Places places(layout);
  const partition::PartitionRequest request{layout.mesh, target, layout.rules, layout.explicit_mode, false};
  std::vector<std::optional<Spec>> gradient_results(model_results);
  std::vector<std::optional<Spec>> update_results(3, Spec{});
  for (const Trained& trained : parameters) {
    const std::size_t rank = trained.shape.size();
    gradient_results.emplace_back(places.of(trained.path, rank));
    update_results.emplace_back(places.of(trained.path, rank));
    if (trained.moments > 0) update_results.emplace_back(places.of("mu/" + trained.path, rank));
    if (trained.moments > 1) update_results.emplace_back(places.of("nu/" + trained.path, rank));
  }
  partition::Partitioned forward = partition::partition(gradients, places.of_roots(gradients), gradient_results, request);
  partition::PartitionRequest free = request;
  free.explicit_mode = false;
  free.free_products = true;
  partition::Partitioned learn = partition::partition(update, places.of_roots(update), update_results, free);
  StepPrograms programs{std::move(forward.graph), std::move(learn.graph), std::move(forward.choices)};
  programs.choices.insert(programs.choices.end(), learn.choices.begin(), learn.choices.end());
  return programs;
}

}  // namespace moesh::train
