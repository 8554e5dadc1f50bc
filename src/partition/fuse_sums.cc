#include "partition/fuse_sums.h"

#include <algorithm>
#include <vector>

#include "base/place.h"
#include "graph/facts.h"
#include "graph/rewrite.h"

namespace moesh::partition {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Value;
using graph::ValueId;

class Fusing {
 public:
  explicit Fusing(Graph graph) : graph_(std::move(graph)), users_(graph::users_of(graph_)) {}

  Graph run() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      Node& node = graph_.nodes[i];
      if (auto* repeat = std::get_if<graph::RepeatOf>(&node.attributes)) graph::replace_body(*repeat, with_sums_fused(*repeat->body));
      if (auto* region = std::get_if<graph::RegionOf>(&node.attributes)) graph::replace_body(*region, with_sums_fused(*region->body));
      const auto* of = std::get_if<graph::BinaryOf>(&node.attributes);
      if (of != nullptr && of->function == graph::Binary::add) fuse(static_cast<NodeId>(i));
    }
    std::erase_if(graph_.nodes, [](const Node& node) { return node.results.empty(); });
    graph::find_producers(graph_);
    return graph::without_dead_nodes(std::move(graph_));
  }

 private:
  // Tries both terms of the sum.
  void fuse(NodeId sum) {
    Node& node = graph_.nodes[at(sum)];
    for (const std::size_t side : {0u, 1u}) {
      const ValueId term = node.operands[side], other = node.operands[1 - side];
      if (!may_fuse(sum, term, other)) continue;
      Node& maker = graph_.nodes[at(graph_.value(term).producer)];
      maker.operands.push_back(other);
      maker.results[0] = node.results[0];
      std::vector<NodeId>& users = users_[at(other)];
      std::replace(users.begin(), users.end(), sum, graph_.value(term).producer);
      std::sort(users.begin(), users.end());
      graph_.values[at(node.results[0])].producer = graph_.value(term).producer;
      node = {};
      return;
    }
  }

  bool may_fuse(NodeId sum, ValueId term, ValueId other) const {
    const Value &value = graph_.value(term), &before = graph_.value(other), &made = graph_.value(graph_.node(sum).results[0]);
    const Node& maker = graph_.node(value.producer);
    const bool could_take = graph::facts_of(maker.op).added_to == static_cast<int>(maker.operands.size()) && maker.results[0] == term;
    if (!could_take || users_[at(term)].size() != 1 || maker.phase != graph_.node(sum).phase) return false;
    if (!graph::is_alike(value, made) || !graph::is_alike(before, made) || before.producer >= value.producer) return false;
    if (graph::facts_of(maker.op).kernel != graph::KernelKind::product) return true;
    const bool ends_there = users_[at(other)].back() == sum && !graph::is_root(graph_.producer_of(other));
    return value.dtype == DType::float32 && ends_there;
  }

  Graph graph_;
  std::vector<std::vector<NodeId>> users_;
};

}  // namespace

Graph with_sums_fused(Graph graph) { return Fusing(std::move(graph)).run(); }

}  // namespace moesh::partition
