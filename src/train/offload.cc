#include "train/offload.h"

#include <map>
#include <set>
#include <string>
#include <utility>

#include "graph/facts.h"
#include "graph/rewrite.h"
#include "train/remat.h"

namespace moesh::train {
namespace {

// Where values with these names may come from in a plan: the paths of their nodes. decoder_layer_input stands for the inputs of the layers.
// What is saved of a value may be what a constraint or a reshape made it from, or, if it was resharded, what its reader asked for.
class Places {
 public:
  explicit Places(const std::set<std::string>& names) : names_(names), takes_inputs_(names.contains("decoder_layer_input")) {}

  void see(const graph::Graph& graph) {
    for (const graph::Node& node : graph.nodes) {
      if (names_.contains(node.tag)) see_named(graph, node);
      for (const graph::ValueId operand : node.operands) {
        if (is_named(graph, operand)) add(node.path, graph.value(operand));
      }
      const graph::Graph* body = graph::body_of(node);
      if (body == nullptr) continue;
      const auto* repeat = std::get_if<graph::RepeatOf>(&node.attributes);
      if (repeat != nullptr && takes_inputs_) see_inputs(*body, repeat->carried);
      see(*body);
    }
  }
  bool contain(const std::string& path, const Shape& shape) const { return places_.contains({path, elements(shape)}); }

 private:
  void add(const std::string& path, const graph::Value& value) { places_.emplace(path, elements(value.shape)); }

  bool is_named(const graph::Graph& graph, graph::ValueId value) const {
    const graph::Node* maker = &graph.producer_of(value);
    while (!names_.contains(maker->tag) && graph::is_alias(*maker)) maker = &graph.producer_of(maker->operands[0]);
    return names_.contains(maker->tag);
  }

  void see_named(const graph::Graph& graph, const graph::Node& named) {
    const graph::Node* node = &named;
    add(node->path, graph.value(node->results[0]));
    while (graph::is_alias(*node)) {
      node = &graph.producer_of(node->operands[0]);
      add(node->path, graph.value(node->results[0]));
    }
  }

  void see_inputs(const graph::Graph& body, int carried) {
    const std::vector<graph::ValueId> inputs = graph::inputs_of(body);
    for (std::size_t i = 0; i < static_cast<std::size_t>(carried); ++i) add(body.producer_of(inputs[i]).path, body.value(inputs[i]));
  }

  const std::set<std::string>& names_;
  bool takes_inputs_;
  std::set<std::pair<std::string, std::int64_t>> places_;  // with the number of elements
};

std::vector<forecast::Offloaded> stacks_of(const graph::Graph& model, const StepProgram& program, const std::set<std::string>& names) {
  if (names.empty()) return {};
  Places places(names);
  places.see(model);
  const std::vector<plan::Instruction>& instructions = program.plan.instructions;
  std::map<plan::BufferId, forecast::Offloaded> stacks;
  for (std::size_t i = 0; i < instructions.size(); ++i) {
    if (instructions[i].phase != graph::Phase::forward) continue;
    for (const plan::ViewId id : instructions[i].results) {
      const plan::View& view = program.plan.view(id);
      if (view.advances.empty() || !places.contain(instructions[i].path, view.shape)) continue;
      const std::int64_t bytes = sharding::shard_bytes(view.shape, view.dtype, view.spec, program.plan.mesh);
      stacks.emplace(view.buffer, forecast::Offloaded{view.buffer, bytes, static_cast<plan::InstructionId>(i)});
    }
  }
  std::vector<forecast::Offloaded> found;
  for (const auto& [buffer, stack] : stacks) found.push_back(stack);
  return found;
}

std::vector<forecast::Offloaded> moments_of(const plan::Plan& plan, const sharding::Layout& layout) {
  std::vector<forecast::Offloaded> found;
  const std::unordered_map<std::string, plan::ViewId> states = plan.views_of_states();
  for (const sharding::LaidTensor& moment : layout.moments) {
    const auto state = states.find(moment.path);
    if (state == states.end()) continue;
    const plan::BufferId buffer = plan.view(state->second).buffer;
    found.push_back({buffer, plan.buffer(buffer).bytes, -1});
  }
  return found;
}

forecast::Materialised materialised_of(const config::Settings& settings) {
  return {settings.integer("gradient_accumulation_steps"), settings.integer("num_vocab_tiling"),
          settings.text("attention") == "dot_product", settings.boolean("use_iota_embed")};
}

}  // namespace

bool keeps_moments_on_host(const config::Settings& settings, const mesh::Chip& chip) {
  return settings.boolean("optimizer_memory_host_offload") && !chip.has_memory_of_host();
}

std::vector<forecast::Offloaded> offloaded_of(const graph::Graph& model, const StepProgram& program, const Where& where,
                                              const config::Settings& settings) {
  if (where.target.chip.has_memory_of_host()) return {};
  std::vector<forecast::Offloaded> offloaded = stacks_of(model, program, offloaded_names(settings));
  if (!keeps_moments_on_host(settings, where.target.chip)) return offloaded;
  for (const forecast::Offloaded& moment : moments_of(program.plan, where.layout)) offloaded.push_back(moment);
  return offloaded;
}

forecast::Elsewhere elsewhere_of(const graph::Graph& model, const StepProgram& program, const Where& where,
                                 const config::Settings& settings) {
  return {offloaded_of(model, program, where, settings), materialised_of(settings)};
}

}  // namespace moesh::train
