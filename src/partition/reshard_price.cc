#include "partition/reshard_price.h"

namespace moesh::partition {
namespace {

using sharding::AxisList;
using sharding::Spec;

void add(const Spec& spec, std::string& key) {
  for (const AxisList& axes : spec.dims) key.append(axes.begin(), axes.end()).push_back('\xfe');
  key.append(spec.partial.begin(), spec.partial.end()).push_back('\xfd');
}

std::string key_of(const Shape& shape, DType dtype, const Spec& from, const Spec& to) {
  std::string key(reinterpret_cast<const char*>(shape.data()), shape.size() * sizeof(shape[0]));
  key.push_back(static_cast<char>(dtype));
  add(from, key);
  add(to, key);
  return key;
}

}  // namespace

double ReshardPrices::seconds(const Shape& shape, DType dtype, const Spec& from, const Spec& to) const {
  if (from == to) return 0;
  const auto [entry, is_new] = known_.try_emplace(key_of(shape, dtype, from, to), 0.0);
  if (!is_new) return entry->second;
  const Spec* at = &from;
  const std::vector<ReshardStep> steps = reshard_steps(from, to, mesh_);
  for (const ReshardStep& step : steps) {
    const auto bytes = static_cast<double>(cost::operand_bytes(shape, dtype, *at, mesh_));
    entry->second += cost::collective_seconds(step.how.kind, bytes, network_.group(step.how.axes));
    at = &step.result;
  }
  return entry->second;
}

}  // namespace moesh::partition
