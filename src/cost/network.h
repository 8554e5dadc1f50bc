// How a mesh lies on a machine: by which links the devices along its axes reach each other.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "mesh/mesh.h"
#include "mesh/topology.h"
#include "sharding/spec.h"

namespace moesh::cost {

// Devices in a row along a dim of a torus, or in a ring where they have the whole of a dim whose ends are joined.
struct Line {
  std::size_t dim = 0;
  std::int64_t devices = 1;
  std::int64_t stride = 1;  // hops from one to the next: as many such lines share a link
  bool is_ring = false;
};

// Devices that links of one kind connect.
struct Level {
  enum class Kind : std::uint8_t {
    switched,  // each can send all that it sends to any one
    direct,    // a port for each of the others
    torus      // two ports for each dim
  };
  Kind kind = Kind::switched;
  std::size_t link = 0;         // of the chip's links
  double bytes_per_second = 0;  // that leave a device in large collectives, by one port where there are several
  double latency_seconds = 0;
  std::int64_t devices = 1;
  std::vector<Line> lines;  // of a torus
};

// The devices that differ in some axes only, from the nearest level to the farthest. Their number is the product of the
// levels'.
using Group = std::vector<Level>;

std::int64_t devices_of(const Group& group);

// Axes are laid on the machine from the mesh's last one on: within chips, then nodes, then on whole dims of a torus or
// on parts of them, then across nodes and slices. An axis that neither fits is taken for devices on a switch.
class Network {
 public:
  Network(const mesh::Mesh& mesh, const mesh::Topology& target);

  const Group& group(const sharding::AxisList& axes) const;
  const mesh::Topology& target() const { return target_; }

 private:
  struct Part {
    mesh::Domain domain;
    std::int64_t devices;
    std::vector<Line> lines;
  };
  Group make(const sharding::AxisList& axes) const;
  Level level_of(mesh::Domain domain, bool on_torus) const;

  const mesh::Topology& target_;
  std::vector<std::vector<Part>> parts_;                // of each axis
  mutable std::map<sharding::AxisList, Group> groups_;  // made so far
};

}  // namespace moesh::cost
