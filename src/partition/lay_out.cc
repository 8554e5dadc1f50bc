#include "partition/lay_out.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"
#include "graph/rewrite.h"
#include "partition/collectives.h"
#include "partition/moments.h"
#include "partition/split_region.h"

namespace moesh::partition {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::ValueId;
using sharding::Dispatch;
using sharding::LaidRegion;
using sharding::LaidTensor;
using sharding::Layout;

const graph::RegionOf& region_of(const Node& node) { return std::get<graph::RegionOf>(node.attributes); }

// The devices that a region's experts are sharded over.
graph::GroupOf devices_of_experts(const graph::RegionOf& of) {
  graph::GroupOf group;
  for (const Node& inner : of.body->nodes) {
    if (inner.op == Op::device_index) group = std::get<graph::GroupOf>(inner.attributes);
  }
  return group;
}

// The bytes that a device sends in a run of the region, with a balanced router.
double sent_bytes(const graph::RegionOf& of) {
  double bytes = 0;
  for (const Collective& collective : collectives_of_region(*split_region(of).body)) bytes += collective.wire_bytes;
  return bytes;
}

// A region of the model, which begins with the tokens, the experts that they choose, the weights of these choices and the experts' kernels
// (see nn/moe/sparse.cc). A region of a backward pass has other inputs.
LaidRegion laid_region(const Node& node) {
  const graph::RegionOf& of = region_of(node);
  const graph::GroupOf group = devices_of_experts(of);
  const std::vector<ValueId> inputs = graph::inputs_of(*of.body);
  const auto input = [&](std::size_t i) -> const graph::Value& { return of.body->value(inputs.at(i)); };
  const std::int64_t width = input(0).shape.back();
  return {.path = node.path,
          .strategy = of.strategy,
          .axes = group.axes,
          .devices = group.members,
          .tokens = static_cast<double>(elements(input(0).shape) / width),
          .experts = static_cast<double>(input(3).shape[0] * group.members),
          .choices = static_cast<double>(input(1).shape.back()),
          .token_bytes = static_cast<double>(width * size_of(input(0).dtype))};
}

// The op that made a value, in words: an einsum with its equation, experts with how tokens get to them, other ops by name.
std::string describe(const Node& node) {
  if (node.op == Op::region) {
    const graph::RegionOf& of = region_of(node);
    const std::int64_t devices = devices_of_experts(of).members;
    if (devices == 1) return fmt::format("the experts, which every device has ({})", node.path);
    const bool is_local = of.strategy == Dispatch::local;
    const std::string way = is_local ? "each keeps its tokens' rows" : fmt::format("by {}", graph::name_of(of.strategy));
    return fmt::format("the experts, 1/{} to a device, {} ({}); a device sends {} for them in a pass forward", devices, way, node.path,
                       human_bytes(sent_bytes(of)));
  }
  if (node.op == Op::input) return fmt::format("what a layer is handed ({})", node.path);
  if (const auto* einsum = std::get_if<graph::EinsumOf>(&node.attributes)) {
    return fmt::format("einsum {} ({})", einsum->equation, node.path);
  }
  return fmt::format("{} ({})", name_of(node.op), node.path);
}

// The nearest sources of a value, as indices: activations with a constraint, the parameters used on the way from them, and carried
// inputs of bodies, whose values come from the previous iteration.
struct Nearest {
  std::set<int> activations;
  std::set<int> parameters;
  std::set<int> carried;

  void add(const Nearest& other) {
    activations.insert(other.activations.begin(), other.activations.end());
    parameters.insert(other.parameters.begin(), other.parameters.end());
    carried.insert(other.carried.begin(), other.carried.end());
  }
};

// Walks one graph and, below it, the bodies of its repeats.
class Activations {
 public:
  Activations(Layout& layout, Evenness evenness) : layout_(layout), evenness_(evenness) {
    for (std::size_t i = 0; i < layout.parameters.size(); ++i) parameters_[layout.parameters[i].path] = static_cast<int>(i);
  }

  void walk(const Graph& graph) {
    walk(graph, {});
    const auto add_user = [](std::vector<LaidTensor>& of, int tensor, std::size_t user) {
      of[static_cast<std::size_t>(tensor)].users.push_back(static_cast<int>(user));
    };
    for (std::size_t i = 0; i < nearest_.size(); ++i) {
      LaidTensor& tensor = layout_.activations[i];
      nearest_[i].activations.erase(static_cast<int>(i));
      tensor.sources.assign(nearest_[i].activations.begin(), nearest_[i].activations.end());
      tensor.weights.assign(nearest_[i].parameters.begin(), nearest_[i].parameters.end());
      for (const int source : tensor.sources) add_user(layout_.activations, source, i);
      for (const int weight : tensor.weights) add_user(layout_.parameters, weight, i);
    }
  }

 private:
  // `given`: the nearest sources of the graph's inputs. Returns those of its results.
  std::vector<Nearest> walk(const Graph& graph, const std::vector<Nearest>& given) {
    std::map<ValueId, Nearest> of;
    const std::vector<ValueId> inputs = graph::inputs_of(graph);
    for (std::size_t i = 0; i < given.size(); ++i) of[inputs[i]] = given[i];
    for (const Node& node : graph.nodes) {
      if (const auto parameter = parameters_.find(node.path); node.op == Op::parameter && parameter != parameters_.end())
        of[node.results.front()].parameters = {parameter->second};
      if (graph::is_root(node)) continue;
      Nearest sources;
      for (const ValueId operand : node.operands) sources.add(of[operand]);
      if (node.op == Op::constraint) sources = {{add(graph, node, sources)}, {}, {}};
      if (node.op == Op::region) {
        check_region(graph, node);
        layout_.regions.push_back(laid_region(node));
      }
      for (const ValueId result : node.results) of[result] = sources;
      if (std::holds_alternative<graph::RepeatOf>(node.attributes)) walk_repeat(node, of);
    }
    std::vector<Nearest> results;
    for (const ValueId result : graph.results) results.push_back(of[result]);
    return results;
  }

  // A carried value comes from before the repeat, or from the iteration before.
  void walk_repeat(const Node& node, std::map<ValueId, Nearest>& of) {
    const auto& repeat = std::get<graph::RepeatOf>(node.attributes);
    std::vector<Nearest> given;
    for (const ValueId operand : node.operands) given.push_back(of[operand]);
    const int first_carried = next_carried_;
    for (int i = 0; i < repeat.carried; ++i) given[static_cast<std::size_t>(i)].carried.insert(next_carried_++);
    const std::size_t before = nearest_.size();
    const std::vector<Nearest> results = walk(*repeat.body, given);
    for (std::size_t a = before; a < nearest_.size(); ++a) {
      for (int i = 0; i < repeat.carried; ++i) {
        if (nearest_[a].carried.contains(first_carried + i)) nearest_[a].add(results[static_cast<std::size_t>(i)]);
      }
    }
    for (std::size_t i = 0; i < node.results.size() && i < results.size(); ++i) of[node.results[i]] = results[i];
  }

  int add(const Graph& graph, const Node& node, const Nearest& sources) {
    const graph::Value& value = graph.value(node.results.front());
    const int index = static_cast<int>(layout_.activations.size());
    LaidTensor tensor{.path = node.path,
                      .shape = value.shape,
                      .dtype = value.dtype,
                      .constraint = std::get<graph::ConstraintOf>(node.attributes),
                      .made_by = describe(graph.producer_of(node.operands.front()))};
    tensor.spec = sharding::lay(tensor.constraint, layout_.rules, layout_.mesh, node.path);
    layout_.activations.push_back(std::move(tensor));
    nearest_.push_back(sources);
    by_value_[{&graph, node.results.front()}] = index;
    return index;
  }

  void check_region(const Graph& graph, const Node& node) {
    for (const ValueId operand : node.operands) {
      const auto laid = by_value_.find({&graph, operand});
      if (laid == by_value_.end()) continue;
      LaidTensor& tensor = layout_.activations[static_cast<std::size_t>(laid->second)];
      tensor.must_divide = true;
      if (evenness_ == Evenness::demanded) check_even(tensor, layout_);
    }
  }

  Layout& layout_;
  Evenness evenness_;
  std::map<std::string, int> parameters_;  // by path
  std::vector<Nearest> nearest_;           // by activation
  int next_carried_ = 0;
  std::map<std::pair<const Graph*, ValueId>, int> by_value_;
};

void add_parameters(const Graph& graph, Evenness evenness, Layout& layout) {
  for (const Node& node : graph.nodes) {
    if (node.op != Op::parameter) continue;
    const graph::Value& value = graph.value(node.results.front());
    LaidTensor tensor{.path = node.path, .shape = value.shape, .dtype = value.dtype};
    const auto& of = std::get<graph::ParameterOf>(node.attributes);
    tensor.constraint.labels = of.labels;
    if (of.labelled != graph::ParameterOf::Labelled::each_dim) tensor.constraint.unlisted = static_cast<int>(of.labels.size());
    tensor.role = of.role;
    tensor.spec = sharding::lay(tensor.constraint, layout.rules, layout.mesh, node.path);
    if (evenness == Evenness::demanded) check_even(tensor, layout);
    layout.parameters.push_back(std::move(tensor));
  }
  std::sort(layout.parameters.begin(), layout.parameters.end(),
            [](const LaidTensor& a, const LaidTensor& b) { return a.path < b.path; });
}

void add_states(const Graph& graph, Evenness evenness, Layout& layout) {
  for (const Node& node : graph.nodes) {
    if (node.op != Op::input) continue;
    const graph::Value& value = graph.value(node.results.front());
    LaidTensor tensor{.path = node.path, .shape = value.shape, .dtype = value.dtype};
    tensor.constraint.labels = std::get<graph::InputOf>(node.attributes).labels;
    tensor.spec = sharding::lay(tensor.constraint, layout.rules, layout.mesh, node.path);
    if (evenness == Evenness::demanded) check_even(tensor, layout);
    if (graph::is_input(node, graph::InputOf::Kind::state)) {
      layout.states.push_back(std::move(tensor));
    } else if (layout.input.path.empty()) {
      layout.input = std::move(tensor);
    }
  }
}

void add_input(const LayoutRequest& request, Layout& layout) {
  layout.input.path = "inputs";
  layout.input.shape = {request.batch.rows_to_load, request.settings.integer("max_target_length")};
  layout.input.dtype = DType::int32;
  layout.input.constraint.labels = request.settings.texts("input_data_sharding_logical_axes");
  if (layout.input.constraint.labels.size() != layout.input.shape.size()) {
    refuse(fmt::format("input_data_sharding_logical_axes has {} labels, the input has a batch and a length",
                       layout.input.constraint.labels.size()),
           request.settings.origin("input_data_sharding_logical_axes").where, "name two labels");
  }
  layout.input.spec = sharding::lay(layout.input.constraint, layout.rules, layout.mesh, "inputs");
  if (request.evenness == Evenness::demanded) check_even(layout.input, layout);
}

void add_moments(const config::Settings& settings, Layout& layout) {
  const Optimized optimized(settings);
  const DType mu_dtype = config::first_moment_dtype(settings);
  const bool over_data = settings.boolean("shard_optimizer_over_data");
  for (const int moment : {1, 2}) {
    for (const LaidTensor& parameter : layout.parameters) {
      if (optimized.moments(parameter.path, parameter.role, parameter.shape) < moment) continue;
      LaidTensor tensor = parameter;
      tensor.path = moment == 1 ? mu_of(parameter.path) : nu_of(parameter.path);
      tensor.moment_of = parameter.path;
      tensor.users.clear();  // only the update reads it
      if (moment == 1) tensor.dtype = mu_dtype;
      if (over_data) tensor.spec = sharding::over_data(tensor.shape, tensor.spec, layout.mesh);
      layout.moments.push_back(std::move(tensor));
    }
  }
}

}  // namespace

Layout empty_layout(const config::Settings& settings, const mesh::Mesh& mesh) {
  return {.mesh = mesh,
          .rule_set = settings.text("custom_mesh_and_rule"),
          .rules = settings.rules("logical_axis_rules"),
          .explicit_mode = settings.text("shard_mode") == "explicit"};
}

Layout lay_out(const Graph& graph, const LayoutRequest& request) {
  Layout layout = empty_layout(request.settings, request.mesh);
  add_input(request, layout);
  add_parameters(graph, request.evenness, layout);
  Activations(layout, request.evenness).walk(graph);
  add_moments(request.settings, layout);
  return layout;
}

Layout lay_out_decoding(const Graph& graph, const config::Settings& settings, const mesh::Mesh& mesh, Evenness evenness) {
  Layout layout = empty_layout(settings, mesh);
  add_states(graph, evenness, layout);
  add_parameters(graph, evenness, layout);
  Activations(layout, evenness).walk(graph);
  return layout;
}

}  // namespace moesh::partition
