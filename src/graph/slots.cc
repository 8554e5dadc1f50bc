#include "graph/slots.h"

#include <cassert>
#include <map>

#include "graph/builder.h"
#include "graph/rewrite.h"

namespace moesh::graph {
namespace {

// What replaces a mask.
struct Mask {
  Tensor slots;    // [B, S, K]
  Tensor weights;  // [B, S, K] in the mask's type; absent if all weights are 1
  SlotMaskOf of;
};

class Rewrite {
 public:
  explicit Rewrite(const Graph& graph) : graph_(graph), tensors_(graph.values.size()) {}

  Graph run() {
    for (const Node& node : graph_.nodes) {
      builder_.stand_in_for(node);
      if (!rewrite(node)) copy(node);
    }
    for (const ValueId id : graph_.results) builder_.mark_result(tensors_[at(id)]);
    Graph made = builder_.take();
    made.result_names = graph_.result_names;
    return made;
  }

 private:
  static std::size_t at(ValueId id) { return static_cast<std::size_t>(id); }

  bool rewrite(const Node& node) {
    if (node.op == Op::slot_mask) {
      masks_[node.results[0]] = mask_of(node);
      return true;
    }
    const auto mask = masks_.find(node.operands.empty() ? -1 : node.operands.back());
    if (mask == masks_.end()) return false;
    if (node.op == Op::constraint) {
      Mask laid = mask->second;
      ConstraintOf of = std::get<ConstraintOf>(node.attributes);
      of.labels = {of.labels[0], of.labels[1], ""};
      laid.slots = builder_.add_one(Op::constraint, "", {laid.slots}, of, laid.slots.shape(), laid.slots.dtype());
      masks_[node.results[0]] = laid;
      return true;
    }
    assert(node.op == Op::einsum && "masks are only multiplied with");
    const Mask& m = mask->second;
    std::vector<Tensor> operands{tensors_[at(node.operands[0])], m.slots};
    if (m.weights) operands.push_back(m.weights);
    const Value& result = graph_.value(node.results[0]);
    const Op op = graph_.value(node.operands[0]).shape.size() == 3 ? Op::fill_slots : Op::empty_slots;
    tensors_[at(node.results[0])] = builder_.add_one(op, "", operands, m.of, result.shape, result.dtype);
    return true;
  }

  // Masks of the same choices share their slots.
  Mask mask_of(const Node& node) {
    const SlotMaskOf of = std::get<SlotMaskOf>(node.attributes);
    const Tensor ids = tensors_[at(node.operands[0])];
    Tensor& slots = slots_[node.operands[0]];
    if (!slots) slots = builder_.add_one(Op::slots, "", {ids}, of, ids.shape(), DType::int32);
    if (node.operands.size() == 1) return {slots, {}, of};
    return {slots, cast(tensors_[at(node.operands[1])], graph_.value(node.results[0]).dtype), of};
  }

  void copy(const Node& node) {
    std::vector<Tensor> operands;
    for (const ValueId id : node.operands) operands.push_back(tensors_[at(id)]);
    Attributes attributes = node.attributes;
    if (auto* repeat = std::get_if<RepeatOf>(&attributes)) {
      repeat->body = std::make_shared<const Graph>(without_slot_masks(*repeat->body));
    }
    const std::vector<Tensor> made = copy_node(builder_, graph_, node, operands, std::move(attributes));
    for (std::size_t i = 0; i < made.size(); ++i) tensors_[at(node.results[i])] = made[i];
  }

  const Graph& graph_;
  Builder builder_;
  std::vector<Tensor> tensors_;
  std::map<ValueId, Mask> masks_;
  std::map<ValueId, Tensor> slots_;
};

}  // namespace

Graph without_slot_masks(const Graph& graph) { return Rewrite(graph).run(); }

}  // namespace moesh::graph
