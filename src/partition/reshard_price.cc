#include "partition/reshard_price.h"

namespace moesh::partition {
namespace {

using sharding::AxisList;
using sharding::Spec;

std::string key_of(const Shape& shape, DType dtype, const Spec& from, const Spec& to) {
  std::string key(reinterpret_cast<const char*>(shape.data()), shape.size() * sizeof(shape[0]));
  key.push_back(static_cast<char>(dtype));
  append_to(key, from);
  append_to(key, to);
  return key;
}

double seconds_of(const Shape& shape, DType dtype, const Spec& from, const std::vector<ReshardStep>& steps, const mesh::Mesh& mesh,
                  const cost::Network& network) {
  double seconds = 0;
  const Spec* at = &from;
  for (const ReshardStep& step : steps) {
    const auto bytes = static_cast<double>(sharding::shard_bytes(shape, dtype, *at, mesh));
    seconds += cost::collective_seconds(step.how.kind, bytes, network.group(step.how.axes));
    at = &step.result;
  }
  return seconds;
}

}  // namespace

void append_to(std::string& key, const Spec& spec) {
  for (const AxisList& axes : spec.dims) key.append(axes.begin(), axes.end()).push_back('\xfe');
  key.append(spec.partial.begin(), spec.partial.end()).push_back('\xfd');
}

const Resharding& ReshardPrices::fastest(const Shape& shape, DType dtype, const Spec& from, const Spec& to) const {
  static const Resharding nothing;
  if (from == to) return nothing;
  const auto [entry, is_new] = known_.try_emplace(key_of(shape, dtype, from, to));
  Resharding& best = entry->second;
  if (!is_new) return best;
  for (std::vector<ReshardStep>& steps : reshard_ways(shape, from, to, mesh_)) {
    const double seconds = seconds_of(shape, dtype, from, steps, mesh_, network_);
    if (best.steps.empty() || seconds < best.seconds * kClearly) best = {std::move(steps), seconds};
  }
  return best;
}

}  // namespace moesh::partition
