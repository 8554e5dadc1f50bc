// What work and collectives cost on a machine: the figures that a choice between layouts rests on.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/shape.h"
#include "graph/graph.h"
#include "mesh/mesh.h"
#include "mesh/topology.h"
#include "partition/reshard.h"

namespace moesh::partition {

// The bytes that one device hands to a collective whose operand lies as `from`.
std::int64_t operand_bytes(const Shape& shape, DType dtype, const sharding::Spec& from, const mesh::Mesh& mesh);

// The bytes of them that leave a device, by the usual algorithms on rings: nothing for a slice.
double wire_bytes(graph::ReshardOf::Kind kind, double operand_bytes, std::int64_t group);

class Prices {
 public:
  Prices(const mesh::Mesh& mesh, const mesh::Topology& target);

  double reshard(const Shape& shape, DType dtype, const sharding::Spec& from, const sharding::Spec& to) const;
  double work(double flops, double bytes, DType dtype) const;

 private:
  struct Wire {
    double bytes_per_second = 0;
    double latency_seconds = 0;
  };
  // The nearest link that reaches all devices of a group along these axes.
  Wire wire(const sharding::AxisList& axes) const;

  const mesh::Mesh& mesh_;
  const mesh::Topology& target_;
  std::vector<std::int64_t> reach_;  // of each axis: the number of neighbouring devices that a group along it spans
};

}  // namespace moesh::partition
