#include "partition/beside.h"

#include "base/place.h"

namespace moesh::partition {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::ValueId;

class BesideFinder {
 public:
  BesideFinder(const Graph& graph, const std::vector<Want>& wants) : graph_(graph), wants_(wants) {
    found_.with.resize(graph.values.size());
    found_.reader.resize(graph.values.size(), -1);
  }

  Beside find() {
    for (NodeId i = 0; i < static_cast<NodeId>(graph_.nodes.size()); ++i) {
      const Op op = graph_.node(i).op;
      if (op != Op::repeat && op != Op::region && op != Op::constraint) see(i, graph_.node(i));
    }
    return std::move(found_);
  }

 private:
  bool is_broadcast(ValueId id) const { return graph_.producer_of(id).op == Op::broadcast; }
  bool is_cotangent(ValueId id) const {
    const Node& producer = graph_.producer_of(id);
    return producer.phase == graph::Phase::backward && !graph::is_root(producer);
  }

  void see(NodeId number, const Node& node) {
    const bool is_backward = node.phase == graph::Phase::backward;
    const bool passes_on = is_backward && (node.op == Op::einsum || node.op == Op::cast);
    for (const ValueId id : node.operands) {
      if (is_broadcast(id)) see_broadcast(node, id);
      if (passes_on && found_.reader[at(id)] < 0 && is_cotangent(id)) found_.reader[at(id)] = number;
    }
    if (is_backward && node.operands.size() > 1) see_cotangents(node);
  }

  void see_broadcast(const Node& node, ValueId id) {
    for (const ValueId with : node.operands) {
      if (!is_broadcast(with) && graph_.value(with).shape == graph_.value(id).shape) pair(id, with);
    }
  }

  void see_cotangents(const Node& node) {
    const std::vector<std::vector<int>> dims = graph::factors_of(graph_, node).operands;
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const ValueId id = node.operands[i];
      if (!is_cotangent(id) || is_broadcast(id) || wants_[at(id)]) continue;
      for (std::size_t k = 0; k < node.operands.size(); ++k) {
        const ValueId with = node.operands[k];
        if (dims[k] == dims[i] && !is_cotangent(with) && !is_broadcast(with)) pair(id, with);
      }
    }
  }

  void pair(ValueId id, ValueId with) {
    const bool is_earlier = graph_.value(with).producer < graph_.value(id).producer;
    if (is_earlier && !found_.with[at(id)]) found_.with[at(id)] = with;
  }

  const Graph& graph_;
  const std::vector<Want>& wants_;
  Beside found_;
};

}  // namespace

Beside find_beside(const Graph& graph, const std::vector<Want>& wants) { return BesideFinder(graph, wants).find(); }

}  // namespace moesh::partition
