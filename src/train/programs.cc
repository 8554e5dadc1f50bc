#include "train/programs.h"

#include <algorithm>
#include <map>

#include "models/model.h"
#include "run/placed.h"

namespace moesh::train {
namespace {

using graph::Graph;
using graph::Node;
using graph::Op;
using Kind = graph::InputOf::Kind;
using sharding::Spec;

// Where what has a name lies; all else is whole on every device.
class Places {
 public:
  explicit Places(const sharding::Layout& layout) : layout_(layout) {
    for (const sharding::LaidTensor& tensor : layout.parameters) add(tensor.path, tensor.spec);
    for (const sharding::LaidTensor& tensor : layout.parameters) add(tensor.path + "'", tensor.spec);
    for (const sharding::LaidTensor& tensor : layout.moments) add(tensor.path, tensor.spec);
  }

  Spec of(const std::string& name, std::size_t rank) const {
    const auto found = specs_.find(name);
    return found != specs_.end() ? found->second : sharding::whole_spec(rank);
  }

  std::vector<Spec> of_roots(const Graph& graph) const {
    std::vector<Spec> specs;
    for (const Node& node : graph.nodes) {
      if (!graph::is_root(node)) continue;
      specs.push_back(graph::is_input(node, Kind::batch) ? sharding::without_size_one(layout_.input.spec, layout_.mesh)
                                                         : of(node.path, graph.value(node.results.front()).shape.size()));
    }
    return specs;
  }

 private:
  void add(const std::string& name, const Spec& spec) { specs_[name] = sharding::without_size_one(spec, layout_.mesh); }

  const sharding::Layout& layout_;
  std::map<std::string, Spec> specs_;
};

}  // namespace

StepPrograms step_programs(const Graph& model, const config::Settings& settings) {
  StepPrograms programs;
  programs.parameters = trained_parameters(model, settings);
  programs.model_results = model.results.size();
  programs.microbatches = settings.integer("gradient_accumulation_steps");
  programs.gradients = gradient_graph(model, settings);
  programs.update = update_graph(programs.parameters, settings);
  return programs;
}

StepPrograms step_programs(const Graph& model, const config::Settings& settings, const Where& where) {
  const sharding::Layout& layout = where.layout;
  StepPrograms programs = step_programs(model, settings);
  programs.mesh = layout.mesh;
  if (layout.mesh.devices() == 1) return programs;
  const Places places(layout);
  std::vector<std::optional<Spec>> gradient_results(programs.model_results);
  std::vector<std::optional<Spec>> update_results(3, Spec{});
  for (const Trained& trained : programs.parameters) {
    const std::size_t rank = trained.shape.size();
    gradient_results.emplace_back(places.of(trained.path, rank));
    update_results.emplace_back(places.of(trained.path, rank));
    if (trained.moments > 0) update_results.emplace_back(places.of("mu/" + trained.path, rank));
    if (trained.moments > 1) update_results.emplace_back(places.of("nu/" + trained.path, rank));
  }
  const auto partitioned = [&](const Graph& graph, const std::vector<std::optional<Spec>>& results, bool has_constraints) {
    const partition::PartitionRequest request{layout.mesh, where.target, layout.rules, layout.explicit_mode && has_constraints,
                                              !has_constraints};
    partition::Partitioned made = partition::partition(graph, places.of_roots(graph), results, request);
    programs.choices.insert(programs.choices.end(), made.choices.begin(), made.choices.end());
    return std::move(made.graph);
  };
  programs.gradients = partitioned(programs.gradients, gradient_results, true);
  programs.update = partitioned(programs.update, update_results, false);
  return programs;
}

namespace {

// What a process holds of values that no program is given.
class Held {
 public:
  explicit Held(const mesh::Mesh& mesh) : mesh_(mesh) {}

  void add(const Shape& shape, DType dtype, const Spec& spec) {
    held_.push_back(run::unfilled(shape, dtype, spec, mesh_, *pool_));
    device_ += elements(sharding::shard_shape(shape, spec, mesh_)) * size_of(dtype);
  }
  std::int64_t process() const { return static_cast<std::int64_t>(pool_->peak_bytes()); }
  std::int64_t taken() const { return static_cast<std::int64_t>(pool_->peak_taken()); }
  std::int64_t device() const { return device_; }

 private:
  const mesh::Mesh& mesh_;
  std::shared_ptr<run::Pool> pool_ = run::Pool::counting();
  std::vector<run::Placed> held_;
  std::int64_t device_ = 0;
};

}  // namespace

run::Footprint footprint_of(const StepPrograms& programs) {
  Held moments(programs.mesh), batch(programs.mesh), sums(programs.mesh);
  bool is_cut = programs.microbatches > 1;
  for (const Node& node : programs.gradients.nodes) {
    if (!graph::is_root(node) || node.op == Op::parameter) continue;
    const graph::Value& value = programs.gradients.value(node.results.front());
    Shape whole = value.shape;
    whole[0] *= programs.microbatches;
    batch.add(whole, value.dtype, {});
    is_cut = is_cut || sharding::shards(value.spec, programs.mesh) > 1;
  }
  for (const Node& node : programs.update.nodes) {
    if (!graph::is_input(node, Kind::moment)) continue;
    const graph::Value& value = programs.update.value(node.results.front());
    moments.add(value.shape, value.dtype, value.spec);
  }
  // While a further microbatch runs, the sum of the gradients so far is held, and what the model gave beside its few numbers.
  for (std::size_t i = 0; programs.microbatches > 1 && i < programs.gradients.results.size(); ++i) {
    const std::string name = i < programs.gradients.result_names.size() ? programs.gradients.result_names[i] : "";
    const bool stays = i >= programs.model_results || name == models::results::logits || name == models::results::expert_load;
    if (!stays) continue;
    const graph::Value& value = programs.gradients.value(programs.gradients.results[i]);
    sums.add(value.shape, value.dtype, value.spec);
  }
  // A batch that is not cut is what the gradient program is given; it stays until the step is over.
  const run::Footprint gradients = run::footprint_of(
      programs.gradients, programs.mesh, [&](const Node& node) { return node.op == Op::parameter || !is_cut; });
  const run::Footprint update =
      run::footprint_of(programs.update, programs.mesh, [](const Node& node) { return !graph::is_input(node, Kind::number); });
  run::Footprint peak;
  peak.device = std::max(gradients.device + moments.device() + sums.device(), update.device);
  peak.process = std::max(gradients.process + moments.process() + sums.process() + (is_cut ? batch.process() : 0), update.process + batch.process());
  peak.taken = std::max(gradients.taken + moments.taken() + sums.taken() + (is_cut ? batch.taken() : 0), update.taken + batch.taken());
  return peak;
}

}  // namespace moesh::train
