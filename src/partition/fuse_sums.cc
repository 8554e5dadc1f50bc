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
  explicit Fusing(Graph graph) : graph_(std::move(graph)), uses_(graph_.values.size()), last_use_(graph_.values.size(), -1) {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (const ValueId id : graph_.nodes[i].operands) see(id, static_cast<NodeId>(i));
    }
    for (const ValueId id : graph_.results) see(id, static_cast<NodeId>(graph_.nodes.size()));
  }

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
  void see(ValueId id, NodeId user) {
    ++uses_[at(id)];
    last_use_[at(id)] = user;
  }

  // Either side of the sum.
  void fuse(NodeId sum) {
    Node& node = graph_.nodes[at(sum)];
    for (const std::size_t side : {0u, 1u}) {
      const ValueId term = node.operands[side], other = node.operands[1 - side];
      if (!may_fuse(sum, term, other)) continue;
      Node& maker = graph_.nodes[at(graph_.value(term).producer)];
      maker.operands.push_back(other);
      maker.results[0] = node.results[0];
      last_use_[at(other)] = std::max(last_use_[at(other)], graph_.value(term).producer);
      graph_.values[at(node.results[0])].producer = graph_.value(term).producer;
      node = {};
      return;
    }
  }

  bool may_fuse(NodeId sum, ValueId term, ValueId other) const {
    const Value &value = graph_.value(term), &before = graph_.value(other), &made = graph_.value(graph_.node(sum).results[0]);
    const Node& maker = graph_.node(value.producer);
    const bool could_take = graph::facts_of(maker.op).added_to == static_cast<int>(maker.operands.size()) && maker.results[0] == term;
    if (!could_take || uses_[at(term)] != 1 || maker.phase != graph_.node(sum).phase) return false;
    if (!graph::is_alike(value, made) || !graph::is_alike(before, made) || before.producer >= value.producer) return false;
    if (graph::facts_of(maker.op).kernel != graph::KernelKind::product) return true;
    const bool ends_there = last_use_[at(other)] == sum && !graph::is_root(graph_.producer_of(other));
    return value.dtype == DType::float32 && ends_there;
  }

  Graph graph_;
  std::vector<std::int64_t> uses_;
  std::vector<NodeId> last_use_;
};

}  // namespace

Graph with_sums_fused(Graph graph) { return Fusing(std::move(graph)).run(); }

}  // namespace moesh::partition
