#include "graph/work.h"

#include <algorithm>
#include <cmath>

#include "base/rounding.h"

namespace moesh::graph {
namespace {

double bytes_of(const Value& value, const mesh::Mesh& mesh) {
  return static_cast<double>(sharding::shard_bytes(value.shape, value.dtype, value.spec, mesh));
}

// Whether an earlier operand is the same value, which is then read once for both.
bool is_read_before(const Node& node, std::size_t operand) {
  const auto begin = node.operands.begin(), here = begin + static_cast<std::ptrdiff_t>(operand);
  return std::find(begin, here, *here) != here;
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

Traffic::Traffic(const Node& node, bool in_place) : looked_up_(facts_of(node.op).looked_up), in_place_(in_place) {}

void Traffic::read(std::size_t operand, double bytes, DType dtype, double part) {
  if (operand < 2) factors_ += bytes / static_cast<double>(size_of(dtype));
  if (static_cast<int>(operand) == looked_up_) looks_up_ = part > 0;
  else if (!in_place_ || operand > 0) read_ += part * bytes;
}

void Traffic::add_to(Work& work) const {
  work.bytes += read_ + (looks_up_ ? written_ : 0) + (in_place_ ? 0 : written_);
  if (work.rounded != Rounded::none) work.rounded_values += factors_;
}

double pairs_seen(std::int64_t length, const AttentionOf& of, double own_key) {
  const auto of_row = [&](std::int64_t tokens) {
    const auto all = static_cast<double>(tokens);
    const double reach = of.window > 0 ? std::min(static_cast<double>(of.window), all) : all;
    return reach * (reach - 1) / 2 + reach * own_key + (all - reach) * reach;
  };
  if (of.chunk <= 0) return of_row(length);
  return static_cast<double>(length / of.chunk) * of_row(of.chunk) + of_row(length % of.chunk);
}

double busiest_share(const AttentionOf& of, std::int64_t length, std::int64_t shards) {
  const bool is_balanced = of.balanced_over > 1 && of.balanced_over % shards == 0;
  if (shards == 1 || of.balanced_over == 0 || is_balanced) return 1;
  double most = 0;
  for (std::int64_t shard = 0; shard < shards; ++shard)
    most = std::max(most, pairs_seen(length * (shard + 1) / shards, of) - pairs_seen(length * shard / shards, of));
  return most / (pairs_seen(length, of) / static_cast<double>(shards));
}

double groups_with_rows(double rows, double groups) { return groups * (1 - std::pow(1 - 1 / groups, rows)); }

bool is_product(Op op) {
  const KernelKind kind = facts_of(op).kernel;
  return kind == KernelKind::product || kind == KernelKind::attention;
}

Work work_of(const Node& node, const OpFactors& factors, const std::vector<std::int64_t>& sizes) {
  Work work;
  work.op = facts_of(node.op).name;
  work.kind = facts_of(node.op).kernel;
  work.rounded = rounded_in(node.attributes);
  if (factors.flops == 0) return work;
  work.flops = factors.flops;
  for (const std::int64_t size : sizes) work.flops *= static_cast<double>(size);
  if (const auto* of = std::get_if<AttentionOf>(&node.attributes)) {
    const auto length = static_cast<std::size_t>(factors.operands[0][1]);
    const std::int64_t all = factors.factors[length].size;
    work.flops *= busiest_share(*of, all, divide_up(all, sizes[length]));
  }
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
  work.rounded = rounded_in(view.node.attributes);
  Traffic traffic(view.node, in_place);
  for (std::size_t i = 0; i < view.operands(); ++i) {
    const Value& operand = view.operand(i);
    const double part = is_read_before(view.node, i) ? 0 : facts.part_read == nullptr ? 1 : facts.part_read(view, i);
    traffic.read(i, bytes_of(operand, mesh), operand.dtype, part);
  }
  for (std::size_t i = 0; i < view.results(); ++i) traffic.write(bytes_of(view.result(i), mesh));
  traffic.add_to(work);
  return work;
}

}  // namespace moesh::graph
