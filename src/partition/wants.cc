#include "partition/wants.h"

#include <algorithm>

#include "base/place.h"
#include "graph/facts.h"
#include "graph/rewrite.h"
#include "sharding/layout.h"

namespace moesh::partition {
namespace {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::ValueId;
using sharding::Spec;

class WantFinder {
 public:
  WantFinder(const Graph& graph, const PartitionRequest& request)
      : graph_(graph), request_(request), wants_(graph.values.size()), firm_(graph.values.size()) {}

  std::vector<Want> find(const std::vector<Want>& results) {
    for (std::size_t i = 0; i < graph_.results.size(); ++i) {
      if (i < results.size() && results[i]) ask(graph_.results[i], *results[i], true);
    }
    for (std::size_t i = graph_.nodes.size(); i-- > 0;) visit(graph_.nodes[i]);
    return std::move(wants_);
  }

 private:
  // A layout that is asked of the value itself is firm. Of those propagated to it, the one from the nearest consumer stays.
  void ask(ValueId id, Spec spec, bool firm) {
    if (firm_[at(id)] && !firm) return;
    wants_[at(id)] = std::move(spec);
    firm_[at(id)] = firm;
  }

  void visit(const Node& node) {
    if (node.op == Op::constraint) return ask(node.operands[0], spec_of(graph_, node, request_), true);
    if (node.op == Op::repeat) {
      const std::vector<Want> carried = carried_wants(node, request_);
      for (std::size_t i = 0; i < carried.size(); ++i) {
        if (carried[i]) ask(node.operands[i], *carried[i], false);
      }
      return;
    }
    if (node.op == Op::region) {
      const auto& wanted = std::get<graph::RegionOf>(node.attributes).operands;
      for (std::size_t i = 0; i < wanted.size(); ++i) ask(node.operands[i], wanted[i], false);
      return;
    }
    if (!graph::facts_of(node.op).keeps_dims || !wants_[at(node.results[0])]) return;
    // Free nodes do not propagate wants, except a reshape whose result has a firm one.
    if (is_free(node) && !(node.op == Op::reshape && firm_[at(node.results[0])])) return;
    const Spec& wanted = *wants_[at(node.results[0])];
    // The rows of a norm may be sharded, see expand.h.
    if (node.op == Op::rms_norm) return ask(node.operands[0], wanted, false);
    const graph::OpFactors factors = graph::factors_of(graph_, node);
    for (std::size_t i = 0; i < node.operands.size(); ++i) ask(node.operands[i], passed_on(factors, wanted, i), false);
  }

  const Graph& graph_;
  const PartitionRequest& request_;
  std::vector<Want> wants_;
  std::vector<bool> firm_;
};

}  // namespace

Spec spec_of(const Graph& graph, const Node& constraint, const PartitionRequest& request) {
  const auto& of = std::get<graph::ConstraintOf>(constraint.attributes);
  Spec spec = sharding::lay(of, request.rules, request.mesh, constraint.path);
  if (of.over_data) spec = sharding::over_data(graph.value(constraint.operands[0]).shape, spec, request.mesh);
  if (of.unreduced) {
    const sharding::AxisList sharded = sharding::distinct_axes(spec);
    for (sharding::AxisIndex axis = 0; axis < request.mesh.axes().size(); ++axis) {
      if (!sharding::holds(sharded, axis)) spec.partial.push_back(axis);
    }
  }
  return sharding::without_size_one(spec, request.mesh);
}

Spec with_partial_within(Spec spec, const sharding::AxisList& axes) {
  erase_if(spec.partial, [&](sharding::AxisIndex axis) { return !sharding::holds(axes, axis); });
  return spec;
}

Spec passed_on(const graph::OpFactors& factors, const Spec& wanted, std::size_t operand) {
  Spec spec;
  for (const int factor : factors.operands[operand]) {
    sharding::AxisList axes;
    const auto& dims = factors.results[0];
    const auto dim = std::find(dims.begin(), dims.end(), factor);
    if (factor != graph::kWhole && dim != dims.end()) axes = wanted.dims[static_cast<std::size_t>(dim - dims.begin())];
    spec.dims.push_back(std::move(axes));
  }
  if (factors.linear_together || factors.linear[operand]) spec.partial = wanted.partial;
  return spec;
}

std::vector<Want> find_wants(const Graph& graph, const std::vector<Want>& results, const PartitionRequest& request) {
  return WantFinder(graph, request).find(results);
}

std::vector<Want> carried_wants(const Node& repeat, const PartitionRequest& request) {
  const auto& of = std::get<graph::RepeatOf>(repeat.attributes);
  const Graph& body = *of.body;
  const std::vector<Want> inside = find_wants(body, {}, request);
  const std::vector<ValueId> inputs = graph::inputs_of(body);
  std::vector<Want> wants;
  for (std::size_t i = 0; i < static_cast<std::size_t>(of.carried); ++i) {
    const Node& last = body.producer_of(body.results[i]);
    wants.push_back(last.op == Op::constraint ? Want(spec_of(body, last, request)) : inside[at(inputs[i])]);
  }
  return wants;
}

Spec without_dims(const Spec& spec, int position, std::size_t count) {
  Spec made = spec;
  made.dims.erase(made.dims.begin() + position, made.dims.begin() + position + static_cast<std::ptrdiff_t>(count));
  return made;
}

Spec with_dims(const Spec& spec, int position, std::size_t count) {
  Spec made = spec;
  made.dims.insert(made.dims.begin() + position, count, {});
  return made;
}

}  // namespace moesh::partition
