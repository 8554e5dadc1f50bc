#include "plan/lower.h"

#include <algorithm>
#include <cassert>
#include <list>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>

#include <fmt/core.h>

#include "base/error.h"
#include "base/place.h"
#include "graph/counted_rows.h"
#include "graph/facts.h"
#include "graph/rewrite.h"
#include "plan/overwrite.h"
#include "plan/verify.h"

namespace moesh::plan {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::ValueId;
using sharding::AxisList;

// A graph, or the body of a node, while it is lowered.
struct Scope {
  explicit Scope(const Graph& of)
      : graph(of), aliases(of), views(of.values.size(), -1), wanted(of.values.size(), -1), is_given_away(of.values.size()) {}

  const Graph& graph;
  Aliases aliases;
  std::vector<ViewId> views;                                     // by value, once it is made
  std::unordered_map<BufferId, std::vector<ValueId>> values_in;  // the values that are made, by the buffer of their view
  std::vector<ViewId> wanted;       // the place where a value is to be made; -1: anywhere
  std::vector<bool> is_given_away;  // for inputs: whether nobody outside reads them afterwards, so that they may be overwritten
  std::vector<ValueId> counted_by;  // in a region: the value that counts a value's rows

  bool is_own(ValueId id) const { return is_given_away[at(id)] || !graph::is_root(graph.producer_of(id)); }
  const graph::Value& value(ValueId id) const { return graph.value(id); }
  ViewId view(ValueId id) const { return views[at(id)]; }

  // Whether `holds` is true of all values that lie in the buffer.
  template <typename Holds>
  bool all_in(BufferId buffer, const Holds& holds) const {
    const auto found = values_in.find(buffer);
    return found == values_in.end() || std::all_of(found->second.begin(), found->second.end(), holds);
  }
};

class Lowering {
 public:
  explicit Lowering(const mesh::Mesh& mesh) { plan_.mesh = mesh; }

  Plan run(const Graph& graph) {
    Scope scope(graph);
    const auto results = graph::named_results(graph);
    for (const Node& node : graph.nodes) {
      if (graph::is_root(node)) add_root(scope, node, node.op == Op::parameter || results.contains(node.path));
    }
    std::vector<ViewId> places;
    const std::unordered_map<std::string, ViewId> states = plan_.views_of_states();
    for (std::size_t i = 0; i < graph.results.size(); ++i) places.push_back(place_of_result(scope, i, states));
    for (std::size_t i = 0; i < places.size(); ++i) want(scope, graph.results[i], places[i]);
    lower_nodes(scope);
    put_results(scope, graph.results, places);
    plan_.results = places;
    return std::move(plan_);
  }

 private:
  const View& view(ViewId id) const { return plan_.view(id); }
  InstructionId next() const { return static_cast<InstructionId>(plan_.instructions.size()); }

  // On one device.
  template <typename Of>
  std::int64_t bytes_of(const Of& of) const {
    return sharding::shard_bytes(of.shape, of.dtype, of.spec, plan_.mesh);
  }

  BufferId add_buffer(const std::string& name, Lasts lasts, const graph::Value& value) {
    plan_.buffers.push_back({name, lasts, bytes_of(value), sharding::distinct_axes(value.spec)});
    return static_cast<BufferId>(plan_.buffers.size() - 1);
  }

  ViewId add_view(View view) {
    plan_.views.push_back(std::move(view));
    return static_cast<ViewId>(plan_.views.size() - 1);
  }

  ViewId new_place(const std::string& name, Lasts lasts, const graph::Value& value) {
    return add_view({add_buffer(name, lasts, value), value.shape, value.dtype, value.spec, {}, 0, 1, -1});
  }

  // A view of the same memory with the shape and spec of another value.
  ViewId seen_as(ViewId of, const graph::Value& value) {
    View made = view(of);
    made.shape = value.shape;
    made.spec = value.spec;
    made.rows = -1;
    return add_view(std::move(made));
  }

  Instruction& emit(Instruction::Kind kind, const Node& node, std::vector<ViewId> operands, std::vector<ViewId> results) {
    Instruction instruction;
    instruction.kind = kind;
    instruction.op = node.op;
    instruction.path = node.path;
    instruction.phase = node.phase;
    instruction.operands = std::move(operands);
    instruction.results = std::move(results);
    plan_.instructions.push_back(std::move(instruction));
    return plan_.instructions.back();
  }

  void copy(const Node& node, ViewId from, ViewId to) { emit(Instruction::Kind::copy, node, {from}, {to}); }

  // The value is seen through this view from now on.
  void set_view(Scope& scope, ValueId id, ViewId to) {
    if (const ViewId before = scope.view(id); before >= 0) std::erase(scope.values_in[view(before).buffer], id);
    scope.views[at(id)] = to;
    scope.values_in[view(to).buffer].push_back(id);
  }

  void add_root(Scope& scope, const Node& node, bool is_state) {
    const ValueId id = node.results.front();
    set_view(scope, id, new_place(node.path, is_state ? Lasts::from_run_to_run : Lasts::as_input, scope.value(id)));
    const auto* parameter = std::get_if<graph::ParameterOf>(&node.attributes);
    const int first = parameter != nullptr ? parameter->first : std::get<graph::InputOf>(node.attributes).first;
    plan_.ports.push_back({is_state ? Port::Kind::state : Port::Kind::input, node.path, scope.view(id), first});
  }

  // `states`: views of states by name.
  ViewId place_of_result(const Scope& scope, std::size_t i, const std::unordered_map<std::string, ViewId>& states) {
    const std::string name = i < scope.graph.result_names.size() ? scope.graph.result_names[i] : "";
    const graph::Value& value = scope.value(scope.graph.results[i]);
    if (const auto state = states.find(name); state != states.end()) {
      const View& given = view(state->second);
      if (given.shape == value.shape && given.dtype == value.dtype && given.spec == value.spec) return state->second;
      fail("what is kept from run to run is handed back in another shape, type or layout", name, "lay both out alike");
    }
    const ViewId place = new_place(name, Lasts::as_output, value);
    plan_.ports.push_back({Port::Kind::output, name, place});
    return place;
  }

  // Reserves `place` for the value, if the old content of the place is not needed any more when the value is made.
  void want(Scope& scope, ValueId id, ViewId place) {
    const ValueId made = scope.aliases.first(id);
    const Node& producer = scope.graph.producer_of(made);
    if (graph::is_root(producer) || scope.wanted[at(made)] >= 0 || !view(place).is_dense()) return;
    const graph::Value& value = scope.value(made);
    if (plan_.buffer_of(place).distinct != sharding::distinct_axes(value.spec)) return;
    const BufferId buffer = view(place).buffer;
    if (!scope.all_in(buffer, [&](ValueId old) { return may_overwrite(scope.graph, scope.aliases, old, made); })) return;
    scope.wanted[at(made)] = seen_as(place, value);
    taken_.insert(buffer);
  }

  bool may_be_overwritten(BufferId buffer) const {
    return plan_.buffer(buffer).lasts == Lasts::within && !taken_.contains(buffer);
  }

  // Whether a node with a body may overwrite an operand: it is the last reader of all values in the operand's buffer, they belong to this
  // graph, and none of the node's other operands is in that buffer.
  bool may_give_away(const Scope& scope, const Node& node, ValueId id) const {
    const BufferId buffer = view(scope.view(id)).buffer;
    const auto lies_there = [&](ValueId other) { return view(scope.view(other)).buffer == buffer; };
    const bool is_alone = std::count_if(node.operands.begin(), node.operands.end(), lies_there) == 1;
    if (!may_be_overwritten(buffer) || !is_alone) return false;
    return scope.all_in(buffer, [&](ValueId old) {
      const bool ends_here = scope.aliases.last_use(old) <= static_cast<NodeId>(&node - scope.graph.nodes.data());
      return ends_here && scope.is_own(scope.aliases.first(old));
    });
  }

  // Whether the node may make its result in a buffer that operands are in: all values there belong to this graph and are not read later.
  bool may_donate(const Scope& scope, const Node& node, ValueId result, BufferId buffer) const {
    if (!may_be_overwritten(buffer)) return false;
    return scope.all_in(buffer, [&](ValueId old) {
      const ValueId first = scope.aliases.first(old);
      const bool is_of_node = &scope.graph.producer_of(first) == &node;
      return scope.is_own(first) && !is_of_node && may_overwrite(scope.graph, scope.aliases, old, result);
    });
  }

  // A view of an operand's memory for the result, if this is the operand's last use and the result fits there; -1: there is none.
  ViewId donated(const Scope& scope, const Node& node, ValueId id) {
    const graph::Value& value = scope.value(id);
    const AxisList distinct = sharding::distinct_axes(value.spec);
    const std::int64_t bytes = bytes_of(value);
    const auto result = static_cast<std::size_t>(std::find(node.results.begin(), node.results.end(), id) - node.results.begin());
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      if (!may_lie_in(node.op, i, result)) continue;
      const View& from = view(scope.view(node.operands[i]));
      const Buffer& buffer = plan_.buffer(from.buffer);
      const bool is_all = from.advances.empty() ? buffer.bytes == bytes : scope.is_given_away[at(scope.aliases.first(node.operands[i]))];
      const bool fits = from.shape == value.shape && from.dtype == value.dtype && from.spec == value.spec && from.is_dense() && is_all &&
                        buffer.distinct == distinct;
      if (fits && may_donate(scope, node, id, from.buffer)) return seen_as(scope.view(node.operands[i]), value);
    }
    return -1;
  }

  // The place that is reserved for a value, now that it is made there; -1: there is none.
  ViewId take_wanted(const Scope& scope, ValueId id) {
    const ViewId wanted = scope.wanted[at(id)];
    if (wanted >= 0) taken_.erase(taken_.find(view(wanted).buffer));
    return wanted;
  }

  ViewId place_for(Scope& scope, const Node& node, std::size_t result) {
    const ValueId id = node.results[result];
    if (const ViewId wanted = take_wanted(scope, id); wanted >= 0) return wanted;
    const ViewId donor = donated(scope, node, id);
    return donor >= 0 ? donor : new_place(node.path, Lasts::within, scope.value(id));
  }

  void lower_nodes(Scope& scope) {
    for (const Node& node : scope.graph.nodes) {
      if (graph::is_alias(node)) {
        lower_alias(scope, node);
        continue;
      }
      switch (node.op) {
        case Op::input:
        case Op::parameter: break;
        case Op::repeat: lower_repeat(scope, node); break;
        case Op::region: lower_region(scope, node); break;
        case Op::stage_state: fail("pipeline stages are laid out but not run yet", node.path, "ici_pipeline_parallelism=1");
        default: lower_op(scope, node);
      }
    }
  }

  // A dense view of the value, as kernels need it, copied if necessary.
  ViewId dense(Scope& scope, const Node& node, ValueId id) {
    const ViewId as_is = scope.view(id);
    if (view(as_is).is_dense()) return as_is;
    const ViewId made = new_place(node.path, Lasts::within, scope.value(id));
    copy(node, as_is, made);
    set_view(scope, id, made);
    return made;
  }

  void lower_alias(Scope& scope, const Node& node) {
    set_view(scope, node.results[0], seen_as(dense(scope, node, node.operands[0]), scope.value(node.results[0])));
  }

  // The view with the count of its valid rows, if that has been made already.
  ViewId with_rows(Scope& scope, ValueId id, ViewId of) {
    if (scope.counted_by.empty()) return of;
    const ValueId counts = scope.counted_by[at(id)];
    if (counts < 0 || scope.view(counts) < 0) return of;
    View made = view(of);
    made.rows = scope.view(counts);
    return add_view(std::move(made));
  }

  void lower_op(Scope& scope, const Node& node) {
    const auto* group = std::get_if<graph::GroupOf>(&node.attributes);
    if (graph::facts_of(node.op).is_split && group->members > 1) {
      fail(fmt::format("{} over {} devices runs as collectives and kernels of one device each", name_of(node.op), group->members),
           node.path, "partition the graph first");
    }
    std::vector<ViewId> operands, results;
    for (const ValueId id : node.operands) operands.push_back(with_rows(scope, id, dense(scope, node, id)));
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      results.push_back(with_rows(scope, node.results[i], place_for(scope, node, i)));
      set_view(scope, node.results[i], results.back());
    }
    const bool is_collective = node.op == Op::reshard || graph::collective_of(node);
    const Instruction::Kind kind = is_collective ? Instruction::Kind::collective : Instruction::Kind::kernel;
    emit(kind, node, std::move(operands), std::move(results)).attributes = node.attributes;
  }

  // Copies results that could not be made in their places to these. A copy whose source is in the destination of another one comes
  // before that; if the copies wait for each other in a cycle, one source is copied aside first.
  void put_results(Scope& scope, const std::vector<ValueId>& results, const std::vector<ViewId>& places) {
    struct Move {
      const Node& node;
      ViewId from, to;
    };
    std::list<Move> moves;
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (places[i] < 0 || is_there(scope.view(results[i]), places[i])) continue;
      moves.push_back({scope.graph.producer_of(results[i]), with_rows(scope, results[i], scope.view(results[i])), places[i]});
    }
    const auto may_go = [&](const Move& move) {
      return std::none_of(moves.begin(), moves.end(), [&](const Move& other) {
        return &other != &move && view(other.from).buffer == view(move.to).buffer;
      });
    };
    while (!moves.empty()) {
      const auto next = std::find_if(moves.begin(), moves.end(), may_go);
      if (next != moves.end()) {
        copy(next->node, next->from, next->to);
        moves.erase(next);
        continue;
      }
      Move& first = moves.front();
      const View& from = view(first.from);
      const ViewId aside = new_place(first.node.path, Lasts::within, {from.shape, from.dtype, -1, from.spec});
      copy(first.node, first.from, aside);
      first.from = aside;
    }
  }

  bool is_there(ViewId a, ViewId b) const {
    return view(a).buffer == view(b).buffer && view(a).advances == view(b).advances && view(a).split == view(b).split;
  }

  // Whether a loop may keep a carried value in the memory of its initial value.
  bool may_take(const Scope& scope, const Node& node, ValueId id) const {
    const View& from = view(scope.view(id));
    return may_give_away(scope, node, id) && from.advances.empty() && from.is_dense() &&
           plan_.buffer(from.buffer).bytes == bytes_of(from);
  }

  // The place of a carried value. Its initial value is copied there, unless the loop can use that value's own memory.
  ViewId carried_place(Scope& scope, const Node& node, std::size_t i) {
    const ViewId from = dense(scope, node, node.operands[i]);
    const graph::Value& result = scope.value(node.results[i]);
    const ViewId wanted = take_wanted(scope, node.results[i]);
    if (wanted >= 0 && is_there(from, wanted)) return wanted;
    if (wanted < 0 && may_take(scope, node, node.operands[i]) && plan_.buffer_of(from).distinct == sharding::distinct_axes(result.spec)) {
      return seen_as(from, result);
    }
    const ViewId place = wanted >= 0 ? wanted : new_place(node.path, Lasts::within, result);
    copy(node, from, place);
    return place;
  }

  // An iteration's slice of a stacked value. A slice of a view that is not dense must be after the same dims.
  ViewId slice_of(ViewId stacked, const graph::Value& slice, int position, std::int64_t count, InstructionId loop) {
    View made = view(stacked);
    made.shape = slice.shape;
    made.spec = slice.spec;
    const bool is_within = made.split > 0;
    assert((is_within ? made.split == position : position == 0 || made.advances.empty()) && "a slice of a slice behind other dims");
    for (Advance& outer : made.advances) outer.by *= count;
    made.advances.push_back({loop, 1});
    made.split = position;
    made.stacked = (is_within ? made.stacked : 1) * count;
    return add_view(std::move(made));
  }

  // The stacked result before the i-th that stacks the same value or an alias of it, so that one stack serves both. Both have the layers
  // first.
  std::optional<std::size_t> stacked_before(const Scope& scope, const Scope& inner, const Node& node, std::size_t i) const {
    const auto& of = std::get<graph::RepeatOf>(node.attributes);
    const auto carried = static_cast<std::size_t>(of.carried);
    const auto is_free = [&](std::size_t result) {
      return of.stacks[result - carried] == 0 && scope.wanted[at(node.results[result])] < 0;
    };
    const auto memory_of = [&](std::size_t result) { return inner.aliases.first(inner.graph.results[result]); };
    const auto distinct_of = [&](std::size_t result) { return sharding::distinct_axes(scope.value(node.results[result]).spec); };
    for (std::size_t j = carried; is_free(i) && j < i; ++j) {
      if (is_free(j) && memory_of(j) == memory_of(i) && distinct_of(j) == distinct_of(i)) return j;
    }
    return std::nullopt;
  }

  // A carried value that each iteration also stacks is copied to the stack first and read from there, so that the next carried value can
  // be made in its place.
  void keep_carried(Scope& inner, std::span<const ValueId> carried, std::size_t result, ViewId place) {
    const ValueId kept = inner.aliases.first(inner.graph.results[result]);
    const bool is_carried = std::find(carried.begin(), carried.end(), kept) != carried.end();
    if (place < 0 || !is_carried || !view(place).is_dense()) return;
    const ViewId to = seen_as(place, inner.value(kept));
    copy(inner.graph.producer_of(kept), inner.view(kept), to);
    set_view(inner, kept, to);
  }

  void lower_repeat(Scope& scope, const Node& node) {
    const auto& of = std::get<graph::RepeatOf>(node.attributes);
    const auto carried = static_cast<std::size_t>(of.carried), shared_end = carried + static_cast<std::size_t>(of.shared);
    const Graph& body = *of.body;
    const std::vector<ValueId> inputs = graph::inputs_of(body);
    Scope inner(body);
    std::vector<ViewId> results;
    std::vector<bool> is_kept_already(node.results.size());
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      const std::optional<std::size_t> same = i < carried ? std::nullopt : stacked_before(scope, inner, node, i);
      is_kept_already[i] = same.has_value();
      results.push_back(same ? seen_as(results[*same], scope.value(node.results[i]))
                             : i < carried ? carried_place(scope, node, i) : place_for(scope, node, i));
    }
    const InstructionId loop = next();
    emit(Instruction::Kind::loop, node, {}, {}).count = of.count();
    plan_.instructions.back().reverse = of.reverse;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const ViewId operand = i < carried ? results[i] : scope.view(node.operands[i]);
      const graph::Value& inside = body.value(inputs[i]);
      set_view(inner, inputs[i],
               i < shared_end ? seen_as(operand, inside) : slice_of(operand, inside, of.slices[i - shared_end], of.count(), loop));
      inner.is_given_away[at(inputs[i])] = i >= shared_end && may_give_away(scope, node, node.operands[i]);
    }
    std::vector<ViewId> places;
    for (std::size_t i = 0; i < results.size(); ++i) {
      const graph::Value& inside = body.value(body.results[i]);
      places.push_back(is_kept_already[i] ? -1
                       : i < carried      ? seen_as(results[i], inside)
                                          : slice_of(results[i], inside, of.stacks[i - carried], of.count(), loop));
    }
    for (std::size_t i = carried; i < results.size(); ++i) keep_carried(inner, std::span(inputs).first(carried), i, places[i]);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (places[i] >= 0) want(inner, body.results[i], places[i]);
    }
    lower_nodes(inner);
    put_results(inner, body.results, places);
    plan_.instructions[at(loop)].other = next();
    emit(Instruction::Kind::end, node, {}, {}).other = loop;
    for (std::size_t i = 0; i < results.size(); ++i) set_view(scope, node.results[i], results[i]);
  }

  // Inlines a region. Its body sees the shards as separate values with the shape on one device.
  void lower_region(Scope& scope, const Node& node) {
    const Graph& body = *graph::body_of(node);
    const std::vector<ValueId> inputs = graph::inputs_of(body);
    Scope inner(body);
    inner.counted_by = graph::counted_by(body);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      set_view(inner, inputs[i], seen_as(dense(scope, node, node.operands[i]), body.value(inputs[i])));
      inner.is_given_away[at(inputs[i])] = may_give_away(scope, node, node.operands[i]);
    }
    std::vector<ViewId> places;
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      const ViewId wanted = take_wanted(scope, node.results[i]);
      places.push_back(wanted < 0 ? -1 : seen_as(wanted, body.value(body.results[i])));
      if (wanted >= 0) want(inner, body.results[i], places.back());
    }
    lower_nodes(inner);
    put_results(inner, body.results, places);
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      const ViewId made = places[i] >= 0 ? places[i] : dense(inner, node, body.results[i]);
      set_view(scope, node.results[i], seen_as(made, scope.value(node.results[i])));
    }
  }

  Plan plan_;
  std::multiset<BufferId> taken_;  // buffers of places that are reserved for values that are still to be made
};

}  // namespace

Plan lower(const Graph& graph, const mesh::Mesh& mesh) {
  Plan made = Lowering(mesh).run(graph);
#ifndef NDEBUG
  verify(made);
#endif
  return made;
}

}  // namespace moesh::plan
