#include "models/rounding.h"

#include <memory>
#include <vector>

#include "graph/facts.h"
#include "graph/rewrite.h"

namespace moesh::models {
namespace {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::Role;
using graph::ValueId;

bool is_rounded(Role role) {
  switch (role) {
    case Role::attention_kernel:
    case Role::attention_fused_kernel:
    case Role::attention_down_kernel:
    case Role::attention_out_kernel:
    case Role::mlp_kernel:
    case Role::shared_expert_kernel:
    case Role::expert_kernel: return true;
    default: return false;
  }
}

class Marking {
 public:
  Marking(Graph& graph, graph::Rounded rounded) : graph_(graph), rounded_(rounded), is_weight_(graph.values.size(), false) {}

  // `inputs`: which inputs of a body are weights.
  void mark(const std::vector<bool>& inputs) {
    const std::vector<ValueId> ids = graph::inputs_of(graph_);
    for (std::size_t i = 0; i < inputs.size(); ++i) is_weight(ids[i]) = inputs[i];
    for (Node& node : graph_.nodes) visit(node);
  }

 private:
  std::vector<bool>::reference is_weight(ValueId id) { return is_weight_[static_cast<std::size_t>(id)]; }

  void visit(Node& node) {
    if (const auto* of = std::get_if<graph::ParameterOf>(&node.attributes)) is_weight(node.results[0]) = is_rounded(of->role);
    if (graph::facts_of(node.op).keeps_parameter) is_weight(node.results[0]) = is_weight(node.operands[0]);
    if (auto* of = std::get_if<graph::EinsumOf>(&node.attributes)) {
      if (is_weight(node.operands[0]) || is_weight(node.operands[1])) of->rounded = rounded_;
    }
    if (auto* of = std::get_if<graph::GroupedMatmulOf>(&node.attributes)) of->rounded = rounded_;
    if (auto* of = std::get_if<graph::RepeatOf>(&node.attributes)) of->body = marked(*of->body, node);
    if (auto* of = std::get_if<graph::RegionOf>(&node.attributes)) of->body = marked(*of->body, node);
  }

  std::shared_ptr<const Graph> marked(Graph body, const Node& node) {
    std::vector<bool> inputs;
    for (const ValueId id : node.operands) inputs.push_back(is_weight(id));
    Marking(body, rounded_).mark(inputs);
    return std::make_shared<const Graph>(std::move(body));
  }

  Graph& graph_;
  graph::Rounded rounded_;
  std::vector<bool> is_weight_;
};

}  // namespace

Graph with_rounded_products(Graph graph, graph::Rounded rounded) {
  if (rounded != graph::Rounded::none) Marking(graph, rounded).mark({});
  return graph;
}

}  // namespace moesh::models
