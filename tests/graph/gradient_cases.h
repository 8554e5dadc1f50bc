// Gradient cases: small graphs with awkward sizes for every op that has a gradient, in the variants that its attributes allow.
#pragma once

#include <functional>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "tests/graph/graph_support.h"

namespace moesh::graph::test {

using Tensors = std::vector<Tensor>;

struct GradientCase {
  Op op;
  std::string variant{};
  std::vector<Numbers> operands;  // the float64 ones are differentiated
  std::function<Tensors(Builder&, const Tensors&)> build;
  double step = 1e-5;            // step of the finite differences
  std::set<std::size_t> flat{};  // operands whose slopes are all zero

  std::string name() const { return std::string(name_of(op)) + (variant.empty() ? "" : "_" + variant); }
};
inline void PrintTo(const GradientCase& of, std::ostream* out) { *out << of.name(); }
using GradientCases = std::vector<GradientCase>;

inline Numbers random_numbers(Shape shape, unsigned seed, double low = -1, double high = 1) {
  return noise(DType::float64, std::move(shape), seed, low, high);
}

GradientCases elementwise_cases();
GradientCases shape_cases();
GradientCases layer_cases();
GradientCases expert_cases();

}  // namespace moesh::graph::test
