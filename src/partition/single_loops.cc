#include "partition/single_loops.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/place.h"
#include "graph/rewrite.h"

namespace moesh::partition {
namespace {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::RepeatOf;
using graph::ReshardOf;
using graph::Value;
using graph::ValueId;

// What a loop makes of an operand by casts and reshards alone.
struct Made {
  ValueId of = -1;            // the operand
  std::vector<DType> casts;   // the types that it was cast to
  bool is_exchanged = false;  // devices exchanged it

  auto key() const { return std::pair(of, casts); }
};

const RepeatOf* loop_of_one(const Node& node) {
  const auto* of = std::get_if<RepeatOf>(&node.attributes);
  return of != nullptr && !of->is_block() && of->count() == 1 ? of : nullptr;
}

// Whether each device has parts of the same value afterwards, and not of a sum.
bool is_move(const ReshardOf& of) { return of.kind != ReshardOf::Kind::all_reduce && of.kind != ReshardOf::Kind::reduce_scatter; }

// By value of the loop's body, what is made of operands that are not carried.
std::map<ValueId, Made> made_in(const Node& loop, const RepeatOf& of) {
  std::map<ValueId, Made> all;
  const std::vector<ValueId> inputs = graph::inputs_of(*of.body);
  for (std::size_t i = at(of.carried); i < inputs.size(); ++i) all[inputs[i]] = {loop.operands[i], {}};
  for (const Node& node : of.body->nodes) {
    const auto* reshard = std::get_if<ReshardOf>(&node.attributes);
    if (node.op != Op::cast && (reshard == nullptr || !is_move(*reshard))) continue;
    const auto from = all.find(node.operands[0]);
    if (from == all.end()) continue;
    Made made = from->second;
    if (reshard == nullptr) made.casts.push_back(of.body->value(node.results[0]).dtype);
    else made.is_exchanged = made.is_exchanged || reshard->kind != ReshardOf::Kind::slice;
    all[node.results[0]] = std::move(made);
  }
  return all;
}

// Has loops of one iteration take what earlier ones of the same graph have gathered.
class Sharing {
 public:
  explicit Sharing(Graph graph) : graph_(std::move(graph)) {}

  Graph run() {
    for (Node& node : graph_.nodes) {
      if (const RepeatOf* of = loop_of_one(node)) visit(node, made_in(node, *of));
    }
    graph::find_producers(graph_);
    return graph::without_dead_results(std::move(graph_));
  }

 private:
  // What an earlier loop has exchanged.
  struct Exchanged {
    Node* loop;
    ValueId value;                   // of its body
    std::optional<ValueId> stacked;  // the loop's result that hands it on, once it has one
  };

  void visit(Node& loop, const std::map<ValueId, Made>& all) {
    std::map<ValueId, ValueId> stand_ins;
    for (const auto& [id, made] : all) {
      if (!made.is_exchanged) continue;
      std::vector<Exchanged>& earlier = exchanged_[made.key()];
      const auto alike = std::find_if(earlier.begin(), earlier.end(), [&, value = id](const Exchanged& of) {
        return graph::is_alike(body_of(*of.loop).value(of.value), body_of(loop).value(value));
      });
      if (alike == earlier.end()) earlier.push_back({&loop, id, std::nullopt});
      else stand_ins[id] = take(loop, stacked(*alike), id);
    }
    auto& of = std::get<RepeatOf>(loop.attributes);
    if (!stand_ins.empty()) graph::replace_body(of, graph::with_operands_replaced(*of.body, stand_ins));
  }

  static const Graph& body_of(const Node& loop) { return *std::get<RepeatOf>(loop.attributes).body; }

  // Has the earlier loop hand on what it exchanged.
  ValueId stacked(Exchanged& of) {
    if (of.stacked) return *of.stacked;
    auto& repeat = std::get<RepeatOf>(of.loop->attributes);
    Graph body = *repeat.body;
    Value stack = body.value(of.value);
    stack.shape.insert(stack.shape.begin(), repeat.sizes.begin(), repeat.sizes.end());
    if (!stack.spec.dims.empty()) stack.spec.dims.insert(stack.spec.dims.begin(), repeat.sizes.size(), {});
    body.results.push_back(of.value);
    graph::replace_body(repeat, std::move(body));
    repeat.stacks.push_back(0);
    of.stacked = graph::add_value(graph_, std::move(stack));
    of.loop->results.push_back(*of.stacked);
    return *of.stacked;
  }

  // One more input of the loop's body, in place of one of its values.
  static ValueId take(Node& loop, ValueId stack, ValueId instead_of) {
    auto& of = std::get<RepeatOf>(loop.attributes);
    Graph body = *of.body;
    const std::string path = body.producer_of(instead_of).path;
    const ValueId slice = graph::add_value(body, body.value(instead_of));
    const graph::InputOf input{.labels = Labels(body.value(slice).shape.size())};
    const auto first = std::stable_partition(body.nodes.begin(), body.nodes.end(), [](const Node& node) { return graph::is_root(node); });
    body.nodes.insert(first, {Op::input, path, "", {}, {slice}, input, graph::Phase::forward});
    graph::find_producers(body);
    graph::replace_body(of, std::move(body));
    of.slices.push_back(0);
    loop.operands.push_back(stack);
    return slice;
  }

  Graph graph_;
  std::map<decltype(Made().key()), std::vector<Exchanged>> exchanged_;
};

}  // namespace

Graph without_single_loops(Graph graph) {
  for (Node& node : graph.nodes) {
    if (auto* of = std::get_if<RepeatOf>(&node.attributes)) graph::replace_body(*of, without_single_loops(*of->body));
  }
  return graph::with_single_loops_inlined(Sharing(std::move(graph)).run());
}

}  // namespace moesh::partition
