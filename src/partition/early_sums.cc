#include "partition/early_sums.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "base/place.h"
#include "graph/rewrite.h"

namespace moesh::partition {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::RepeatOf;
using graph::Value;
using graph::ValueId;

// A sum, and which of its operands is made last.
struct Sum {
  NodeId node = -1;
  ValueId term = -1, other = -1;
};

class Moving {
 public:
  explicit Moving(Graph graph) : graph_(std::move(graph)), users_(graph::users_of(graph_)), anchors_(graph_.nodes.size()) {
    std::iota(anchors_.begin(), anchors_.end(), 0);
  }

  Graph run() {
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (const std::optional<Sum> sum = sum_at(static_cast<NodeId>(i))) move(*sum);
    }
    put_in_order();
    for (Node& node : graph_.nodes) {
      if (auto* repeat = std::get_if<RepeatOf>(&node.attributes)) graph::replace_body(*repeat, with_early_sums(*repeat->body));
    }
    return graph::without_dead_nodes(std::move(graph_));
  }

 private:
  std::optional<Sum> sum_at(NodeId id) const {
    const Node& node = graph_.node(id);
    const auto* of = std::get_if<graph::BinaryOf>(&node.attributes);
    if (of == nullptr || of->function != graph::Binary::add || node.operands[0] == node.operands[1]) return std::nullopt;
    const bool is_first_last = graph_.value(node.operands[0]).producer > graph_.value(node.operands[1]).producer;
    const Sum sum{id, node.operands[is_first_last ? 0 : 1], node.operands[is_first_last ? 1 : 0]};
    const Value& made = graph_.value(node.results[0]);
    for (const ValueId operand : node.operands) {
      if (users_[at(operand)].size() != 1 || !graph::is_alike(graph_.value(operand), made)) return std::nullopt;
    }
    const bool is_apart = graph_.value(sum.other).producer < graph_.value(sum.term).producer;
    return is_apart && graph::is_root(graph_.producer_of(sum.other)) ? std::optional(sum) : std::nullopt;
  }

  void move(const Sum& sum) {
    const ValueId stack = before_cast(sum.term);
    const NodeId maker = graph_.value(sum.term).producer;
    if (is_stack(stack)) {
      take_in(stack, sum);
    } else if (!is_collective(maker)) {
      anchors_[at(sum.node)] = anchors_[at(maker)];
    }
  }

  // The value, or what it is cast from if nothing else reads that.
  ValueId before_cast(ValueId id) const {
    const Node& producer = graph_.producer_of(id);
    const bool is_cast = producer.op == graph::Op::cast && users_[at(producer.operands[0])].size() == 1;
    return is_cast ? producer.operands[0] : id;
  }

  // Whether the node, or what it casts, is a collective. A sum right behind one would wait for it, and the kernels behind the sum too.
  bool is_collective(NodeId id) const {
    const Node& node = graph_.node(id);
    return node.op == graph::Op::reshard || (node.op == graph::Op::cast && is_collective(graph_.value(node.operands[0]).producer));
  }

  // The place of the stack among the loop's results.
  static std::size_t place_of(const Node& loop, ValueId stack) {
    return static_cast<std::size_t>(std::find(loop.results.begin(), loop.results.end(), stack) - loop.results.begin());
  }

  bool is_stack(ValueId id) const {
    const Node& loop = graph_.producer_of(id);
    const auto* of = std::get_if<RepeatOf>(&loop.attributes);
    if (of == nullptr || of->is_block()) return false;
    const std::size_t place = place_of(loop, id), carried = static_cast<std::size_t>(of->carried);
    return place >= carried && of->stacks[place - carried] == 0;
  }

  // The loop stacks the sums instead, and casts its own slices if the stack was cast.
  void take_in(ValueId stack, const Sum& sum) {
    const NodeId maker = graph_.value(stack).producer;
    Node& loop = graph_.nodes[at(maker)];
    Node& node = graph_.nodes[at(sum.node)];
    auto& of = std::get<RepeatOf>(loop.attributes);
    const std::size_t place = place_of(loop, stack);
    Graph body = *of.body;
    Value like = body.value(body.results[place]);
    const bool is_cast = like.dtype != graph_.value(sum.term).dtype;
    like.dtype = graph_.value(sum.term).dtype;
    const ValueId slice = graph::add_slice(loop, body, sum.other, like, node.path, node.phase);
    const auto add_node = [&](graph::Op op, std::vector<ValueId> operands, graph::Attributes attributes) {
      body.results[place] = graph::add_value(body, like);
      body.nodes.push_back({op, node.path, "", std::move(operands), {body.results[place]}, std::move(attributes), node.phase});
    };
    if (is_cast) add_node(graph::Op::cast, {body.results[place]}, {});
    add_node(graph::Op::binary, {slice, body.results[place]}, node.attributes);
    graph::find_producers(body);
    graph::replace_body(of, std::move(body));
    loop.results[place] = node.results[0];
    users_[at(sum.other)] = {maker};
    graph_.values[at(node.results[0])].producer = maker;
    if (stack != sum.term) graph_.nodes[at(graph_.value(sum.term).producer)] = {};
    node = {};
  }

  // Nodes that were moved stand behind those that they were moved to, in the order that they had.
  void put_in_order() {
    std::vector<std::size_t> order(graph_.nodes.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return anchors_[a] < anchors_[b]; });
    std::vector<Node> nodes;
    for (const std::size_t i : order) {
      if (!graph_.nodes[i].results.empty()) nodes.push_back(std::move(graph_.nodes[i]));
    }
    graph_.nodes = std::move(nodes);
    graph::find_producers(graph_);
  }

  Graph graph_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<NodeId> anchors_;  // by node: the node behind which it is to stand, or itself
};

}  // namespace

Graph with_early_sums(Graph graph) { return Moving(std::move(graph)).run(); }

}  // namespace moesh::partition
