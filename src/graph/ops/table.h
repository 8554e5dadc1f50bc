// Collects the factors of an op's dims.
#pragma once

#include <initializer_list>
#include <utility>
#include <vector>

#include "graph/facts.h"

namespace moesh::graph {

class FactorTable {
 public:
  explicit FactorTable(const NodeView& view) : view_(view) { made_.linear.assign(view.operands(), false); }

  int factor(std::int64_t size, bool even = false);
  std::vector<int> own(const Shape& shape);                                     // a new factor for each dim
  std::vector<int> own_but(const Shape& shape, const std::vector<int>& whole);  // the same, except that these dims are kWhole

  // The factors of the dims of the next operand, and of the next result.
  FactorTable& takes(std::vector<int> dims);
  FactorTable& gives(std::vector<int> dims);
  FactorTable& linear_in(std::initializer_list<std::size_t> operands);
  FactorTable& linear_together();
  FactorTable& flops(double each);
  FactorTable& in_place();
  FactorTable& anywhere();
  // All operands and results have the same factors in their dims.
  FactorTable& alike(const std::vector<int>& dims);

  OpFactors take() { return std::move(made_); }

 private:
  const NodeView& view_;
  OpFactors made_;
};

std::vector<int> first_dims(const std::vector<int>& dims, std::size_t count);

// The entries of these dims.
template <typename T>
std::vector<T> picked(const std::vector<T>& all, const std::vector<int>& dims) {
  std::vector<T> made;
  for (const int dim : dims) made.push_back(all[static_cast<std::size_t>(dim)]);
  return made;
}

// The gradient of an op through which nothing flows back.
std::vector<Tensor> nothing_flows_back(const Vjp& v);

// Rules of ops that can write each result over any operand, and over the first one only.
bool over_any(std::size_t operand, std::size_t result);
bool over_first(std::size_t operand, std::size_t result);

// All values of the node have the same rows.
void of_same_rows(const Node& node, SameRows& same);

// Helpers of shape rules.
bool are_dims_of(const std::vector<int>& dims, std::size_t rank);
bool all_like(const NodeView& view, const Value& value);  // whether every operand and result has its shape and type
bool is_like(const Value& a, const Value& b);             // whether shape and type are the same
Shape first_sizes(const Shape& shape, std::size_t count);
// Whether these are the keys that choose_keys chooses by scores of this shape.
bool are_chosen_keys(const Value& chosen, const Shape& scores);

}  // namespace moesh::graph
