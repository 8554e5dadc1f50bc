#include "graph/autodiff.h"

#include <map>
#include <numeric>

#include <fmt/core.h>

#include "base/error.h"
#include "graph/again.h"
#include "graph/facts.h"
#include "graph/region.h"
#include "graph/rewrite.h"

namespace moesh::graph {
namespace {

// The number of a node's last results that hand values of its body to its backward pass.
std::ptrdiff_t handed_over(const Node& node) {
  if (const auto* repeat = std::get_if<RepeatOf>(&node.attributes)) return static_cast<std::ptrdiff_t>(repeat->saved.size());
  if (const auto* region = std::get_if<RegionOf>(&node.attributes)) return static_cast<std::ptrdiff_t>(region->saved.size());
  return 0;
}

// For each node, whether the policy saves it.
std::vector<bool> nodes_to_save(const Graph& body, int carried, const Remat& remat) {
  std::vector<bool> saves(body.nodes.size());
  const std::vector<bool> is_again = remat.save_all ? made_again(body, carried) : std::vector<bool>(body.nodes.size());
  for (std::size_t i = 0; i < body.nodes.size(); ++i) saves[i] = !is_root(body.nodes[i]) && remat.saves(body.nodes[i]) && !is_again[i];
  return saves;
}

// Whether the policy saves a value that a region hands over.
bool is_saved_by_policy(const RegionOf& of, std::size_t handed_over, const Remat& remat) {
  return remat.saves(of.body->producer_of(of.saved[handed_over]));
}

// The values of a body that its backward pass is given: the carried inputs, then what the policy saves. A repeat within the body hands over
// all its results, so that its layers are not run once more just to save their values again.
std::vector<ValueId> saved_values(const Graph& body, int carried, const Remat& remat) {
  std::vector<ValueId> inputs = inputs_of(body);
  std::vector<ValueId> saved(inputs.begin(), inputs.begin() + carried);
  const std::vector<bool> is_saved = nodes_to_save(body, carried, remat);
  for (std::size_t i = 0; i < body.nodes.size(); ++i) {
    const Node& node = body.nodes[i];
    const auto first_handed_over = node.results.end() - handed_over(node);
    const bool is_whole = node.op == Op::repeat;
    if (is_saved[i] || is_whole) saved.insert(saved.end(), node.results.begin(), first_handed_over);
    if (is_whole) saved.insert(saved.end(), first_handed_over, node.results.end());
    const auto* region = std::get_if<RegionOf>(&node.attributes);
    for (std::size_t k = 0; region != nullptr && k < region->saved.size(); ++k) {
      if (is_saved_by_policy(*region, k, remat)) saved.push_back(first_handed_over[static_cast<std::ptrdiff_t>(k)]);
    }
  }
  return saved;
}

// The counts of a repeat's operands and results of each kind. Saved values are the last results; their number follows from the body.
struct RepeatParts {
  const RepeatOf& of;
  std::size_t carried, shared, sliced, stacked, saved;
};

RepeatParts parts_of(const Node& node) {
  const auto& of = std::get<RepeatOf>(node.attributes);
  const auto carried = static_cast<std::size_t>(of.carried);
  const auto shared = static_cast<std::size_t>(of.shared);
  const std::size_t saved = of.saved.size();
  return {of, carried, shared, node.operands.size() - carried - shared, node.results.size() - carried - saved, saved};
}

Shape stacked_at(Shape shape, const std::vector<std::int64_t>& sizes, int position) {
  shape.insert(shape.begin() + position, sizes.begin(), sizes.end());
  return shape;
}

class Backward {
 public:
  // `given`: values that regions hand over and that their backward passes take; all of them if it is null.
  explicit Backward(Builder& builder, const std::set<ValueId>* given = nullptr) : builder_(builder), given_(given) {
    builder.set_phase(Phase::backward);
  }
  Backward(Builder& builder, const mesh::Mesh& mesh) : builder_(builder), mesh_(&mesh) { builder.set_phase(Phase::backward); }

  void seed(ValueId id, Tensor cotangent) { add(id, cotangent); }

  // Walks the nodes before `end` from the last to the first.
  void walk(std::size_t end) {
    for (std::size_t i = end; i-- > 0;) {
      // A copy, because adding nodes moves those of the graph.
      const Node node = builder_.graph().nodes[i];
      if (is_root(node)) continue;
      std::vector<Tensor> given;
      bool any = false;
      for (const ValueId result : node.results) {
        given.push_back(cotangent(result));
        any = any || given.back();
      }
      if (!any || !has_floating_operand(node)) continue;
      builder_.set_path(node.path + "'");
      const std::vector<Tensor> made = cotangents_of(node, given);
      for (std::size_t k = 0; k < made.size(); ++k) {
        if (made[k]) add(node.operands[k], made[k]);
      }
    }
  }

  Tensor cotangent(ValueId id) const {
    const auto found = cotangents_.find(id);
    return found == cotangents_.end() ? Tensor{} : found->second;
  }

  Tensor cotangent_or_zeros(Tensor of) {
    const Tensor found = cotangent(of.id);
    if (found) return found;
    builder_.set_path(builder_.graph().producer_of(of.id).path + "'");
    return fill(builder_, 0, of.shape(), of.dtype());
  }

 private:
  bool has_floating_operand(const Node& node) const {
    return std::any_of(node.operands.begin(), node.operands.end(),
                       [&](ValueId id) { return is_floating(builder_.graph().value(id).dtype); });
  }

  void add(ValueId id, Tensor cotangent) {
    Tensor& sum = cotangents_[id];
    if (sum && mesh_ != nullptr) {
      // Only partial sums over the same axes can be added.
      const auto parts = [&](Tensor of) { return sharding::without(builder_.own_axes(of.id), builder_.own_axes(id)); };
      const sharding::AxisList of_sum = parts(sum);
      const sharding::AxisList of_new = parts(cotangent);
      sum = all_sum(sum, *mesh_, sharding::without(of_sum, of_new));
      cotangent = all_sum(cotangent, *mesh_, sharding::without(of_new, of_sum));
    }
    sum = sum ? graph::add(sum, cotangent) : cotangent;
  }

  std::vector<Tensor> tensors(const std::vector<ValueId>& ids) {
    std::vector<Tensor> all;
    for (const ValueId id : ids) all.push_back(builder_.tensor(id));
    return all;
  }

  std::vector<Tensor> cotangents_of(const Node& node, const std::vector<Tensor>& given) {
    if (node.op == Op::repeat) return repeat_cotangents(node, given);
    if (node.op == Op::region) return region_cotangents(node, given);
    const GradientRule rule = facts_of(node.op).gradient;
    if (rule == nullptr) fail(fmt::format("{} has no gradient yet", name_of(node.op)), node.path);
    return rule({builder_, node, tensors(node.operands), tensors(node.results), given});
  }

  std::vector<Tensor> repeat_cotangents(const Node& node, const std::vector<Tensor>& given);
  std::vector<Tensor> region_cotangents(const Node& node, const std::vector<Tensor>& given);

  Builder& builder_;
  const std::set<ValueId>* given_ = nullptr;
  const mesh::Mesh* mesh_ = nullptr;  // in a region's body
  std::map<ValueId, Tensor> cotangents_;
};

// Maps values of a body that were recomputed to those that replace them: `saved`, by the body's own ids.
std::map<ValueId, ValueId> stand_ins_of(const std::vector<Tensor>& again, const std::map<ValueId, Tensor>& saved) {
  std::map<ValueId, ValueId> stand_ins;
  for (const auto& [id, tensor] : saved) stand_ins[again[static_cast<std::size_t>(id)].id] = tensor.id;
  return stand_ins;
}

// The backward body: the layer's forward pass again, except for what is saved, then its own backward pass.
struct BackwardBody {
  Graph graph;
  std::vector<bool> flows;             // which carried values have a cotangent, from behind the layers or from one of them
  std::vector<std::size_t> shared;     // which shared operands get a gradient, one term per iteration
  std::vector<std::size_t> gradients;  // which sliced operands get a gradient
  std::set<std::size_t> recomputed;  // the regions, by their number among the body's nodes, that are recomputed outside their backward pass
};

// Which of a repeat's carried and stacked results have a cotangent.
struct Given {
  std::vector<bool> carried, stacked;
};

// `handing_over`: the regions, by their number among the body's nodes, that hand over all that they can.
BackwardBody backward_body(const Graph& body, const RepeatParts& parts, const Given& cotangents,
                           const std::set<std::size_t>& handing_over) {
  BackwardBody result{{}, cotangents.carried, {}, {}, {}};
  Builder b;
  b.set_phase(Phase::backward);
  const std::vector<ValueId> inputs = inputs_of(body);
  const auto input_like = [&](const char* name, ValueId id) {
    const Value& value = body.value(id);
    return b.input(name, value.shape, value.dtype, Labels(value.shape.size()));
  };
  std::vector<Tensor> carried_cotangents;
  for (std::size_t i = 0; i < parts.carried; ++i)
    carried_cotangents.push_back(cotangents.carried[i] ? input_like("dcarried", body.results[i]) : Tensor{});
  std::map<ValueId, Tensor> known;
  for (std::size_t i = 0; i < parts.shared; ++i) known[inputs[parts.carried + i]] = input_like("shared", inputs[parts.carried + i]);
  for (std::size_t i = 0; i < parts.sliced; ++i) {
    const ValueId id = inputs[parts.carried + parts.shared + i];
    known[id] = input_like("slice", id);
  }
  // The carried inputs are the first of the saved values. The others replace what the forward pass would recompute, after the backward pass
  // has been derived from the nodes that would recompute them.
  std::map<ValueId, Tensor> saved;
  for (std::size_t i = 0; i < parts.saved; ++i) {
    const ValueId id = parts.of.saved[i];
    auto& kept = i < parts.carried ? known : saved;
    kept[id] = input_like("saved", id);
  }
  std::vector<Tensor> stacked_cotangents;
  for (std::size_t i = 0; i < parts.stacked; ++i) {
    stacked_cotangents.push_back(cotangents.stacked[i] ? input_like("dstacked", body.results[parts.carried + i]) : Tensor{});
  }
  const std::vector<Tensor> again = inline_graph(b, body, known);
  const std::map<ValueId, ValueId> stand_ins = stand_ins_of(again, saved);
  std::set<ValueId> given;
  for (const auto& [id, stand_in] : stand_ins) given.insert(id);
  for (const std::size_t region : handing_over) {
    for (const ValueId id : body.nodes[region].results) given.insert(again[static_cast<std::size_t>(id)].id);
  }
  Backward backward(b, &given);
  const std::size_t end = b.graph().nodes.size();
  const auto seed = [&](std::size_t index, Tensor cotangent) {
    if (cotangent) backward.seed(again[static_cast<std::size_t>(body.results[index])].id, cotangent);
  };
  for (std::size_t i = 0; i < parts.carried; ++i) seed(i, carried_cotangents[i]);
  for (std::size_t i = 0; i < parts.stacked; ++i) seed(parts.carried + i, stacked_cotangents[i]);
  backward.walk(end);
  for (std::size_t i = 0; i < parts.carried; ++i) {
    const Tensor carried = known[inputs[i]];
    if (cotangents.carried[i]) b.mark_result(backward.cotangent_or_zeros(carried));
    else result.flows[i] = static_cast<bool>(backward.cotangent(carried.id));
  }
  for (std::size_t i = 0; i < parts.shared; ++i) {
    const Tensor shared = known[inputs[parts.carried + i]];
    const Tensor cotangent = backward.cotangent(shared.id);
    if (!cotangent) continue;
    result.shared.push_back(i);
    b.mark_result(cotangent);
  }
  for (std::size_t i = 0; i < parts.sliced; ++i) {
    const Tensor slice = known[inputs[parts.carried + parts.shared + i]];
    const Tensor cotangent = backward.cotangent(slice.id);
    if (!cotangent) continue;
    result.gradients.push_back(i);
    b.mark_result(cotangent);
  }
  const Graph whole = with_operands_replaced(b.take(), stand_ins);
  const std::vector<bool> is_needed = needed_nodes(whole);
  for (std::size_t i = 0; i < body.nodes.size(); ++i) {
    if (body.nodes[i].op != Op::region) continue;
    const NodeId made = whole.value(again[static_cast<std::size_t>(body.nodes[i].results[0])].id).producer;
    if (is_needed[static_cast<std::size_t>(made)]) result.recomputed.insert(i);
  }
  result.graph = without_dead_nodes(with_cheap_nodes_again(whole, end));
  return result;
}

// A carried value without a cotangent from behind the layers has one if a layer's own results depend on it. A region that is recomputed
// anyway, for what comes after it in the layer, hands its values over to its backward pass, which then does not recompute them once more.
BackwardBody backward_body(const Graph& body, const RepeatParts& parts, Given cotangents) {
  BackwardBody alone = backward_body(body, parts, cotangents, {});
  while (alone.flows != cotangents.carried) {
    cotangents.carried = alone.flows;
    alone = backward_body(body, parts, cotangents, {});
  }
  return alone.recomputed.empty() ? alone : backward_body(body, parts, cotangents, alone.recomputed);
}

std::vector<Tensor> Backward::repeat_cotangents(const Node& node, const std::vector<Tensor>& given) {
  const RepeatParts parts = parts_of(node);
  Given cotangents_given;
  for (std::size_t i = 0; i < parts.carried + parts.stacked; ++i) {
    std::vector<bool>& of_kind = i < parts.carried ? cotangents_given.carried : cotangents_given.stacked;
    of_kind.push_back(static_cast<bool>(given[i]));
  }
  BackwardBody body = backward_body(*parts.of.body, parts, std::move(cotangents_given));

  const auto carried_back = static_cast<int>(std::count(body.flows.begin(), body.flows.end(), true));
  RepeatOf of{nullptr, parts.of.sizes, parts.of.labels, carried_back, parts.of.shared, parts.of.slices, {}, !parts.of.reverse, {}};
  std::vector<Tensor> operands;
  std::vector<std::pair<Shape, DType>> results;
  for (std::size_t i = 0; i < parts.carried; ++i) {
    if (!body.flows[i]) continue;
    const Tensor carried = builder_.tensor(node.results[i]);
    operands.push_back(given[i] ? given[i] : fill(builder_, 0, carried.shape(), carried.dtype()));
    results.emplace_back(carried.shape(), carried.dtype());
  }
  for (std::size_t i = parts.carried; i < node.operands.size(); ++i) operands.push_back(builder_.tensor(node.operands[i]));
  for (std::size_t i = 0; i < parts.saved; ++i) {
    operands.push_back(builder_.tensor(node.results[parts.carried + parts.stacked + i]));
    of.slices.push_back(0);
  }
  for (std::size_t i = 0; i < parts.stacked; ++i) {
    if (!given[parts.carried + i]) continue;
    operands.push_back(given[parts.carried + i]);
    of.slices.push_back(parts.of.stacks[i]);
  }
  for (const std::size_t index : body.shared) {
    const Tensor shared = builder_.tensor(node.operands[parts.carried + index]);
    of.stacks.push_back(0);
    results.emplace_back(stacked_at(shared.shape(), parts.of.sizes, 0), shared.dtype());
  }
  for (const std::size_t sliced : body.gradients) {
    const Tensor stacked = builder_.tensor(node.operands[parts.carried + parts.shared + sliced]);
    of.stacks.push_back(parts.of.slices[sliced]);
    results.emplace_back(stacked.shape(), stacked.dtype());
  }
  std::vector<Tensor> cotangents(node.operands.size());
  if (results.empty()) return cotangents;
  of.body = std::make_shared<const Graph>(std::move(body.graph));
  const std::vector<Tensor> made = builder_.add(Op::repeat, "", operands, of, results);
  std::size_t next = 0;
  for (std::size_t i = 0; i < parts.carried; ++i) {
    if (body.flows[i]) cotangents[i] = made[next++];
  }
  std::vector<int> iterations(parts.of.sizes.size());
  std::iota(iterations.begin(), iterations.end(), 0);
  for (const std::size_t i : body.shared) {
    cotangents[parts.carried + i] = reduce(Reduction::sum, made[next++], iterations);
  }
  for (const std::size_t i : body.gradients) cotangents[parts.carried + parts.shared + i] = made[next++];
  return cotangents;
}

// The region's forward pass again, on the same shards, then its backward pass. A device's contribution to the gradient of a value that it
// shares with others is returned as a partial sum.
std::vector<Tensor> Backward::region_cotangents(const Node& node, const std::vector<Tensor>& given) {
  const auto& of = std::get<RegionOf>(node.attributes);
  Builder b = Builder::of_region(node.path + "'");
  b.set_phase(Phase::backward);
  RegionOf reversed{of.strategy, nullptr, of.operands, {}, of.written_for, {}, of.overlaps};
  std::vector<Tensor> operands = tensors(node.operands);
  const std::vector<ValueId> inputs = inputs_of(*of.body);
  std::map<ValueId, Tensor> known;
  for (const ValueId id : inputs) {
    known[id] = b.shard_input("operand", of.body->value(id).shape, of.body->value(id).dtype, of.body->value(id).spec.own);
  }
  std::vector<Tensor> cotangents(given.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!given[i]) continue;
    const Value& local = of.body->value(of.body->results[i]);
    sharding::Spec spec = of.results[i];
    spec.partial.clear();
    cotangents[i] = b.shard_input("cotangent", local.shape, local.dtype, sharding::distinct_axes(spec));
    operands.push_back(given[i]);
    reversed.operands.push_back(std::move(spec));
  }
  std::map<ValueId, Tensor> saved;
  for (std::size_t i = 0; i < of.saved.size(); ++i) {
    const std::size_t result = given.size() - of.saved.size() + i;
    if (given_ != nullptr && !given_->contains(node.results[result])) continue;
    const Value& local = of.body->value(of.saved[i]);
    saved[of.saved[i]] = b.shard_input("saved", local.shape, local.dtype, local.spec.own);
    operands.push_back(builder_.tensor(node.results[result]));
    reversed.operands.push_back(of.results[result]);
  }
  const std::vector<Tensor> again = inline_graph(b, *of.body, known);
  Backward backward(b, *of.written_for);
  const std::size_t end = b.graph().nodes.size();
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (cotangents[i]) backward.seed(again[static_cast<std::size_t>(of.body->results[i])].id, cotangents[i]);
  }
  backward.walk(end);
  std::vector<std::pair<Shape, DType>> results;
  std::vector<std::size_t> floating;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!is_floating(operands[i].dtype())) continue;
    const Tensor cotangent = backward.cotangent_or_zeros(known[inputs[i]]);
    floating.push_back(i);
    results.emplace_back(operands[i].shape(), operands[i].dtype());
    reversed.results.push_back(of.operands[i]);
    reversed.results.back().partial = sharding::without(b.own_axes(cotangent.id), b.own_axes(known[inputs[i]].id));
    b.mark_result(cotangent);
  }
  // Saved values replace what would be recomputed. Chunks that go through the forward pass one after another also go through the backward
  // pass one after another.
  const Graph whole = with_operands_replaced(b.take(), stand_ins_of(again, saved));
  reversed.body = std::make_shared<const Graph>(without_dead_nodes(with_nodes_when_needed(whole, end)));
  const std::vector<Tensor> made = builder_.add(Op::region, "", operands, reversed, results);
  std::vector<Tensor> all(node.operands.size());
  for (std::size_t i = 0; i < floating.size(); ++i) all[floating[i]] = made[i];
  return all;
}

Node with_saves(const Graph& graph, const Node& node, const Remat& remat, std::vector<Value>& added) {
  Node saving = node;
  auto& of = std::get<RepeatOf>(saving.attributes);
  auto body = std::make_shared<Graph>(with_saved_values(*of.body, remat));
  of.saved = saved_values(*body, of.carried, remat);
  for (const ValueId id : of.saved) {
    body->results.push_back(id);
    of.stacks.push_back(0);
    added.push_back({stacked_at(body->value(id).shape, of.sizes, 0), body->value(id).dtype, graph.value(node.results[0]).producer});
  }
  of.body = std::move(body);
  return saving;
}

// The shards of all devices that have different values, concatenated.
Value rows_of_all(const Value& local, NodeId producer, const mesh::Mesh& mesh) {
  Value all{local.shape, local.dtype, producer};
  all.shape[0] *= sharding::shards(local.spec.own, mesh);
  return all;
}

// Whether a value may be saved. A scalar gives a device's index or the number of dropped rows, which are cheap to compute again.
bool may_be_saved(const Graph& body, ValueId id) { return !body.value(id).shape.empty(); }

// A region can hand over all that a policy may save; the policy decides what is kept for the backward pass.
Node with_saved_rows(const Graph& graph, const Node& node, const Remat& remat, std::vector<Value>& added) {
  Node saving = node;
  auto& of = std::get<RegionOf>(saving.attributes);
  auto body = std::make_shared<Graph>(*of.body);
  std::vector<bool> is_saved = nodes_to_save(*of.body, 0, Remat{true, {}});
  for (std::size_t i = 0; i < is_saved.size(); ++i) is_saved[i] = is_saved[i] || (!remat.save_all && remat.saves(of.body->nodes[i]));
  for (std::size_t i = 0; i < is_saved.size(); ++i) {
    if (!is_saved[i]) continue;
    for (const ValueId id : of.body->nodes[i].results) {
      if (!may_be_saved(*body, id)) continue;
      const Value& local = body->value(id);
      of.saved.push_back(id);
      body->results.push_back(id);
      sharding::Spec spec = sharding::whole_spec(local.shape.size());
      spec.dims[0] = local.spec.own;
      of.results.push_back(std::move(spec));
      added.push_back(rows_of_all(local, graph.value(node.results[0]).producer, *of.written_for));
    }
  }
  of.body = std::move(body);
  return saving;
}

}  // namespace

// Repeats within a repeat's body are rewritten too.
Graph with_saved_values(const Graph& graph, const Remat& remat) {
  Graph saving = graph;
  for (Node& node : saving.nodes) {
    if (node.op != Op::repeat && node.op != Op::region) continue;
    std::vector<Value> added;
    node = node.op == Op::repeat ? with_saves(saving, node, remat, added) : with_saved_rows(saving, node, remat, added);
    for (Value& value : added) {
      node.results.push_back(static_cast<ValueId>(saving.values.size()));
      saving.values.push_back(std::move(value));
    }
  }
  return saving;
}

std::vector<Tensor> gradients(Tensor of, const std::vector<Tensor>& with_respect_to) {
  Builder& builder = *of.builder;
  Backward backward(builder);
  const std::size_t end = builder.graph().nodes.size();
  builder.set_path("loss'");
  backward.seed(of.id, fill(builder, 1, of.shape(), of.dtype()));
  backward.walk(end);
  std::vector<Tensor> all;
  for (const Tensor& tensor : with_respect_to) all.push_back(backward.cotangent_or_zeros(tensor));
  return all;
}

}  // namespace moesh::graph
