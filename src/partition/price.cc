#include "partition/price.h"

#include <algorithm>

namespace moesh::partition {

using graph::ReshardOf;
using sharding::AxisIndex;
using sharding::AxisList;
using sharding::Spec;

std::int64_t operand_bytes(const Shape& shape, DType dtype, const Spec& from, const mesh::Mesh& mesh) {
  return elements(sharding::shard_shape(shape, from, mesh)) * size_of(dtype);
}

double wire_bytes(ReshardOf::Kind kind, double operand_bytes, std::int64_t group) {
  const auto n = static_cast<double>(group);
  switch (kind) {
    case ReshardOf::Kind::slice: return 0;
    case ReshardOf::Kind::all_gather: return operand_bytes * (n - 1);
    case ReshardOf::Kind::reduce_scatter:
    case ReshardOf::Kind::all_to_all: return operand_bytes * (n - 1) / n;
    case ReshardOf::Kind::all_reduce: return operand_bytes * 2 * (n - 1) / n;
    case ReshardOf::Kind::permute: return operand_bytes;
  }
  return 0;
}

Prices::Prices(const mesh::Mesh& mesh, const mesh::Topology& target) : mesh_(mesh), target_(target) {
  std::int64_t stride = 1;
  reach_.resize(mesh.axes().size());
  for (std::size_t axis = mesh.axes().size(); axis-- > 0;) {
    stride *= mesh.axes()[axis].ici;
    reach_[axis] = mesh.axes()[axis].dcn > 1 ? mesh.devices() : stride;
  }
}

Prices::Wire Prices::wire(const AxisList& axes) const {
  std::int64_t reach = 1;
  for (const AxisIndex axis : axes) reach = std::max(reach, reach_[axis]);
  const std::vector<mesh::Link>& links = target_.chip.links;
  if (links.empty()) return {1e9, 1e-6};
  const auto near = std::find_if(links.begin(), links.end(), [&](const mesh::Link& link) {
    return mesh::domain_devices(target_, link) >= reach;
  });
  const mesh::Link& link = near == links.end() ? links.back() : *near;
  // A ring along an axis leaves a device by two of its ports.
  const double share = std::min(1.0, 2.0 / static_cast<double>(link.ports));
  return {link.bytes_per_second * share, link.latency_seconds};
}

double Prices::reshard(const Shape& shape, DType dtype, const Spec& from, const Spec& to) const {
  if (from == to) return 0;
  double seconds = 0;
  const Spec* at = &from;
  const std::vector<ReshardStep> steps = reshard_steps(from, to, mesh_);
  for (const ReshardStep& step : steps) {
    if (step.how.kind != ReshardOf::Kind::slice) {
      const Wire wire = this->wire(step.how.axes);
      const auto bytes = static_cast<double>(operand_bytes(shape, dtype, *at, mesh_));
      const std::int64_t group = sharding::shards(step.how.axes, mesh_);
      seconds += wire.latency_seconds * static_cast<double>(group - 1) +
                 wire_bytes(step.how.kind, bytes, group) / wire.bytes_per_second;
    }
    at = &step.result;
  }
  return seconds;
}

double Prices::work(double flops, double bytes, DType dtype) const {
  const mesh::Chip& chip = target_.chip;
  const double f32 = chip.f32_flops_per_second.value_or(1e12);
  const double rate = dtype == DType::bfloat16 ? chip.bf16_flops_per_second.value_or(f32) : f32;
  return std::max(flops / rate, bytes / chip.memory_bytes_per_second);
}

}  // namespace moesh::partition
