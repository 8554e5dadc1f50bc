#include "graph/work.h"

#include <algorithm>
#include <cmath>

namespace moesh::graph {
namespace {

double bytes_of(const Value& value, const mesh::Mesh& mesh) {
  return static_cast<double>(elements(sharding::shard_shape(value.shape, value.spec, mesh)) * size_of(value.dtype));
}

// The share of groups that are expected to have a row.
double part_with_rows(std::int64_t rows, std::int64_t groups) {
  return groups == 0 ? 0 : groups_with_rows(static_cast<double>(rows), static_cast<double>(groups)) / static_cast<double>(groups);
}

double bytes_of(const NodeView& view, bool in_place, const mesh::Mesh& mesh) {
  double given = 0, taken = 0;
  for (std::size_t i = 0; i < view.results(); ++i) given += bytes_of(view.result(i), mesh);
  const OpFacts& facts = facts_of(view.node.op);
  for (std::size_t i = 0; i < view.operands(); ++i) {
    if (in_place && i == 0) continue;
    const Value& operand = view.operand(i);
    const auto is = [&](int which) { return static_cast<int>(i) == which; };
    const double part = is(facts.of_groups) ? part_with_rows(view.operand(0).shape[0], operand.shape[0]) : 1;
    taken += is(facts.looked_up) ? given : part * bytes_of(operand, mesh);
  }
  return taken + (in_place ? 0 : given);
}

// The size of each factor on a device, after sharding.
std::vector<std::int64_t> local_sizes(const NodeView& view, const OpFactors& factors, const mesh::Mesh& mesh) {
  std::vector<std::int64_t> sizes;
  for (const Factor& factor : factors.factors) sizes.push_back(factor.size);
  const auto see = [&](const std::vector<int>& dims, const Value& value) {
    const Shape shard = sharding::shard_shape(value.shape, value.spec, mesh);
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (dims[d] == kWhole) continue;
      std::int64_t& size = sizes[static_cast<std::size_t>(dims[d])];
      size = std::min(size, shard[d]);
    }
  };
  for (std::size_t i = 0; i < factors.operands.size(); ++i) see(factors.operands[i], view.operand(i));
  for (std::size_t i = 0; i < factors.results.size(); ++i) see(factors.results[i], view.result(i));
  return sizes;
}

Rounded rounded_in(const Attributes& attributes) {
  if (const auto* of = std::get_if<EinsumOf>(&attributes)) return of->rounded;
  if (const auto* of = std::get_if<GroupedMatmulOf>(&attributes)) return of->rounded;
  if (const auto* of = std::get_if<GroupedOuterOf>(&attributes)) return of->rounded;
  return Rounded::none;
}

bool has(const std::vector<int>& dims, int factor) { return std::find(dims.begin(), dims.end(), factor) != dims.end(); }

}  // namespace

double groups_with_rows(double rows, double groups) { return groups * (1 - std::pow(1 - 1 / groups, rows)); }

Work work_of(const Node& node, const OpFactors& factors, const std::vector<std::int64_t>& sizes) {
  Work work;
  work.op = facts_of(node.op).name;
  work.kind = facts_of(node.op).kernel;
  work.rounded = rounded_in(node.attributes);
  if (factors.flops == 0) return work;
  work.flops = factors.flops;
  for (const std::int64_t size : sizes) work.flops *= static_cast<double>(size);
  if (work.kind != KernelKind::product) return work;
  work.rows = work.columns = work.depth = 1;
  for (std::size_t f = 0; f < sizes.size(); ++f) {
    const int factor = static_cast<int>(f);
    const bool in_a = has(factors.operands[0], factor), in_b = has(factors.operands[1], factor);
    if (in_a && in_b && has(factors.results[0], factor)) continue;  // a batch dim: one product for each index
    (in_a && in_b ? work.depth : in_a ? work.rows : work.columns) *= static_cast<double>(sizes[f]);
  }
  return work;
}

Work work_of(const NodeView& view, const mesh::Mesh& mesh) {
  const OpFacts& facts = facts_of(view.node.op);
  Work work;
  bool in_place = false;
  if (facts.factors != nullptr) {
    const OpFactors factors = factors_of(view.graph, view.node);
    work = work_of(view.node, factors, local_sizes(view, factors, mesh));
    in_place = factors.in_place;
  } else if (facts.work != nullptr) {
    work = facts.work(view);
  }
  work.op = facts.name;
  work.kind = facts.kernel;
  work.dtype = view.operands() > 0 ? view.operand(0).dtype : DType::float32;
  work.bytes = bytes_of(view, in_place, mesh);
  work.rounded = rounded_in(view.node.attributes);
  if (work.rounded == Rounded::none) return work;
  for (std::size_t i = 0; i < 2; ++i) {
    const Value& operand = view.operand(i);
    work.rounded_values += bytes_of(operand, mesh) / static_cast<double>(size_of(operand.dtype));
  }
  return work;
}

}  // namespace moesh::graph
