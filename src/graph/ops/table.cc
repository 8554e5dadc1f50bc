#include "graph/ops/table.h"

#include <algorithm>

#include "graph/chosen_keys.h"
#include "graph/counted_rows.h"

namespace moesh::graph {

int FactorTable::factor(std::int64_t size, bool even) {
  made_.factors.push_back({size, even});
  return static_cast<int>(made_.factors.size()) - 1;
}

std::vector<int> FactorTable::own(const Shape& shape) {
  std::vector<int> dims;
  for (const std::int64_t size : shape) dims.push_back(factor(size));
  return dims;
}

std::vector<int> FactorTable::own_but(const Shape& shape, const std::vector<int>& whole) {
  std::vector<int> dims = own(shape);
  for (const int dim : whole) dims[static_cast<std::size_t>(dim)] = kWhole;
  return dims;
}

FactorTable& FactorTable::takes(std::vector<int> dims) {
  made_.operands.push_back(std::move(dims));
  return *this;
}

FactorTable& FactorTable::gives(std::vector<int> dims) {
  made_.results.push_back(std::move(dims));
  return *this;
}

FactorTable& FactorTable::linear_in(std::initializer_list<std::size_t> operands) {
  for (const std::size_t i : operands) made_.linear[i] = true;
  return *this;
}

FactorTable& FactorTable::linear_together() {
  made_.linear_together = true;
  return *this;
}

FactorTable& FactorTable::flops(double each) {
  made_.flops = each;
  return *this;
}

FactorTable& FactorTable::in_place() {
  made_.in_place = true;
  return *this;
}

FactorTable& FactorTable::anywhere() {
  made_.anywhere = true;
  return *this;
}

FactorTable& FactorTable::alike(const std::vector<int>& dims) {
  for (std::size_t i = 0; i < view_.operands(); ++i) takes(dims);
  for (std::size_t i = 0; i < view_.results(); ++i) gives(dims);
  return *this;
}

std::vector<int> first_dims(const std::vector<int>& dims, std::size_t count) {
  return {dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(count)};
}

std::vector<Tensor> nothing_flows_back(const Vjp& v) { return std::vector<Tensor>(v.operands.size()); }

bool over_any(std::size_t, std::size_t) { return true; }
bool over_first(std::size_t operand, std::size_t) { return operand == 0; }

void of_same_rows(const Node& node, SameRows& same) {
  for (const auto* values : {&node.operands, &node.results}) {
    for (const ValueId id : *values) same.join(id, node.results[0]);
  }
}

bool are_dims_of(const std::vector<int>& dims, std::size_t rank) {
  return std::all_of(dims.begin(), dims.end(), [&](int dim) { return dim >= 0 && dim < static_cast<int>(rank); });
}

bool is_like(const Value& a, const Value& b) { return a.shape == b.shape && a.dtype == b.dtype; }

bool all_like(const NodeView& view, const Value& value) {
  for (std::size_t i = 0; i < view.operands(); ++i) {
    if (!is_like(view.operand(i), value)) return false;
  }
  for (std::size_t i = 0; i < view.results(); ++i) {
    if (!is_like(view.result(i), value)) return false;
  }
  return true;
}

bool are_chosen_keys(const Value& chosen, const Shape& scores) {
  return scores.size() == 3 && chosen.shape == Shape{scores[0], scores[1], words_of_keys(scores[2])} && chosen.dtype == DType::int32;
}

Shape first_sizes(const Shape& shape, std::size_t count) {
  return {shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(count)};
}

}  // namespace moesh::graph
