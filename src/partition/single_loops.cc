#include "partition/single_loops.h"

#include <algorithm>
#include <map>
#include <optional>
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
    Graph body = body_of(loop);
    std::map<ValueId, ValueId> stand_ins;
    for (const auto& [id, made] : all) {
      if (!made.is_exchanged) continue;
      std::vector<Exchanged>& earlier = exchanged_[made.key()];
      const auto alike = std::find_if(earlier.begin(), earlier.end(), [&, value = id](const Exchanged& of) {
        return of.loop != &loop && graph::is_alike(body_of(*of.loop).value(of.value), body.value(value));
      });
      if (alike == earlier.end()) earlier.push_back({&loop, id, std::nullopt});
      else stand_ins[id] = graph::add_slice(loop, body, stacked(*alike), body.value(id), body.producer_of(id).path, graph::Phase::forward);
    }
    if (stand_ins.empty()) return;
    graph::replace_body(std::get<RepeatOf>(loop.attributes), graph::with_operands_replaced(std::move(body), stand_ins));
  }

  static const Graph& body_of(const Node& loop) { return *std::get<RepeatOf>(loop.attributes).body; }

  // Has the earlier loop hand on what it exchanged.
  ValueId stacked(Exchanged& of) {
    if (of.stacked) return *of.stacked;
    Graph body = body_of(*of.loop);
    of.stacked = graph::add_stack(graph_, *of.loop, body, of.value);
    graph::replace_body(std::get<RepeatOf>(of.loop->attributes), std::move(body));
    return *of.stacked;
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
