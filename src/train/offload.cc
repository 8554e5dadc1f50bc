#include "train/offload.h"

#include <map>
#include <set>
#include <string>

#include "train/remat.h"

namespace moesh::train {
namespace {

// The paths of the nodes whose results have these names; decoder_layer_input stands for the inputs of the layers.
class Paths {
 public:
  explicit Paths(const std::set<std::string>& names) : names_(names), takes_inputs_(names.contains("decoder_layer_input")) {}

  void see(const graph::Graph& graph) {
    for (const graph::Node& node : graph.nodes) {
      if (!node.tag.empty() && names_.contains(node.tag)) paths_.insert(node.path);
      const graph::Graph* body = graph::body_of(node);
      if (body == nullptr) continue;
      const auto* repeat = std::get_if<graph::RepeatOf>(&node.attributes);
      if (repeat != nullptr && takes_inputs_) see_inputs(*body, repeat->carried);
      see(*body);
    }
  }
  bool contains(const std::string& path) const { return paths_.contains(path); }

 private:
  void see_inputs(const graph::Graph& body, int carried) {
    for (const graph::Node& node : body.nodes) {
      if (node.op != graph::Op::input || carried-- <= 0) return;
      paths_.insert(node.path);
    }
  }

  const std::set<std::string>& names_;
  bool takes_inputs_;
  std::set<std::string> paths_;
};

std::vector<forecast::Offloaded> stacks_of(const graph::Graph& model, const StepProgram& program, const std::set<std::string>& names) {
  if (names.empty()) return {};
  Paths paths(names);
  paths.see(model);
  const std::vector<plan::Instruction>& instructions = program.plan.instructions;
  std::map<plan::BufferId, forecast::Offloaded> stacks;
  for (std::size_t i = 0; i < instructions.size(); ++i) {
    if (instructions[i].phase != graph::Phase::forward || !paths.contains(instructions[i].path)) continue;
    for (const plan::ViewId id : instructions[i].results) {
      const plan::View& view = program.plan.view(id);
      if (view.advances.empty()) continue;
      const std::int64_t bytes = plan::shard_elements(view, program.plan.mesh) * size_of(view.dtype);
      stacks.emplace(view.buffer, forecast::Offloaded{view.buffer, bytes, static_cast<plan::InstructionId>(i)});
    }
  }
  std::vector<forecast::Offloaded> found;
  for (const auto& [buffer, stack] : stacks) found.push_back(stack);
  return found;
}

std::vector<forecast::Offloaded> moments_of(const plan::Plan& plan, const sharding::Layout& layout) {
  std::vector<forecast::Offloaded> found;
  for (const sharding::LaidTensor& moment : layout.moments) {
    const plan::Port* port = plan.find_port(moment.path, plan::Port::Kind::state);
    if (port == nullptr) continue;
    const plan::BufferId buffer = plan.view(port->view).buffer;
    found.push_back({buffer, plan.buffer(buffer).bytes, -1});
  }
  return found;
}

}  // namespace

std::vector<forecast::Offloaded> offloaded_of(const graph::Graph& model, const StepProgram& program, const Where& where,
                                              const config::Settings& settings) {
  if (where.target.chip.has_memory_of_host()) return {};
  std::vector<forecast::Offloaded> offloaded = stacks_of(model, program, offloaded_names(settings));
  if (!settings.boolean("optimizer_memory_host_offload")) return offloaded;
  for (const forecast::Offloaded& moment : moments_of(program.plan, where.layout)) offloaded.push_back(moment);
  return offloaded;
}

}  // namespace moesh::train
