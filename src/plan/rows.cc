#include "plan/rows.h"

#include <numeric>

#include "graph/facts.h"

namespace moesh::plan {
namespace {

using graph::Graph;
using graph::Node;
using graph::Op;
using graph::ValueId;

// Sets of values that have the same rows, each with the value that counts them (a union-find).
class SameRows {
 public:
  explicit SameRows(std::size_t values) : first_(values), counted_(values, -1) { std::iota(first_.begin(), first_.end(), 0); }

  void join(ValueId a, ValueId b) {
    const ValueId into = find(a), from = find(b);
    if (counted(into) < 0) counted(into) = counted(from);
    first(from) = into;
  }
  void count(ValueId rows, ValueId sizes) { counted(find(rows)) = sizes; }
  ValueId counted_by(ValueId id) { return counted(find(id)); }

 private:
  ValueId& first(ValueId id) { return first_[static_cast<std::size_t>(id)]; }
  ValueId& counted(ValueId id) { return counted_[static_cast<std::size_t>(id)]; }
  ValueId find(ValueId id) {
    while (first(id) != id) id = first(id) = first(first(id));
    return id;
  }

  std::vector<ValueId> first_;
  std::vector<ValueId> counted_;
};

void see(const Node& node, SameRows& same) {
  const auto& in = node.operands;
  switch (node.op) {
    case Op::unary:
    case Op::unary_grad:
    case Op::binary:
    case Op::cast:
      for (const ValueId id : in) same.join(id, node.results[0]);
      break;
    case Op::chain:
      for (const ValueId id : in) same.join(id, node.results[0]);
      for (const ValueId id : node.results) same.join(id, node.results[0]);
      break;
    case Op::weighted_rows_grad:
      for (const ValueId id : {in[1], in[2], node.results[0], node.results[1]}) same.join(in[0], id);
      break;
    case Op::grouped_matmul:
    case Op::grouped_bias:
      same.join(in[0], node.results[0]);
      if (graph::adds(node)) same.join(in[0], in.back());
      same.count(in[0], in[2]);
      break;
    case Op::grouped_outer:
      same.join(in[0], in[1]);
      same.count(in[0], in[2]);
      break;
    case Op::grouped_sum: same.count(in[0], in[1]); break;
    case Op::fetch_rows: same.count(node.results[0], in[2]); break;
    case Op::return_rows:
      same.count(in[0], in[2]);
      if (in.size() > 3) same.join(in[0], in[3]);
      break;
    case Op::list_tokens: same.count(node.results[2], in[1]); break;
    case Op::sum_rows:
      same.join(in[0], in[1]);
      if (in.size() > 4) same.join(in[0], in[4]);
      same.count(node.results[0], in[3]);
      break;
    case Op::scatter_rows: same.count(in[0], in[2]); break;
    case Op::exchange_rows:
      same.count(std::get<graph::GroupOf>(node.attributes).back ? in[0] : node.results[0], in[3]);
      break;
    default: break;
  }
}

}  // namespace

std::vector<ValueId> counted_by(const Graph& body) {
  SameRows same(body.values.size());
  for (const Node& node : body.nodes) see(node, same);
  std::vector<ValueId> counted;
  for (std::size_t i = 0; i < body.values.size(); ++i) counted.push_back(same.counted_by(static_cast<ValueId>(i)));
  return counted;
}

}  // namespace moesh::plan
