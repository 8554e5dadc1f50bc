// How a mesh is mapped to a machine: over which links the devices along its axes reach each other.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "mesh/mesh.h"
#include "mesh/topology.h"
#include "sharding/spec.h"

namespace moesh::cost {

// Devices in a line along a dim of a torus, or in a ring if they span a whole dim whose ends are joined.
struct Line {
  std::size_t dim = 0;
  std::int64_t devices = 1;
  std::int64_t stride = 1;  // hops from one device to the next; this many such lines share a link
  bool is_ring = false;
};

// Devices that are connected by links of one kind.
struct Level {
  enum class Kind : std::uint8_t {
    switched,  // each device can send at its full rate to any other
    direct,    // each device has a port for each of the others
    torus      // each device has two ports for each dim
  };
  Kind kind = Kind::switched;
  std::size_t link = 0;         // index of the link in the chip's list
  double bytes_per_second = 0;  // that leave a device in large collectives, by one port if there are several
  double latency_seconds = 0;
  std::int64_t devices = 1;
  std::vector<Line> lines;  // of a torus
};

// The devices that differ only in some axes, by levels from the nearest to the farthest. Their number is the product of the levels' numbers
// of devices.
using Group = std::vector<Level>;

std::int64_t devices_of(const Group& group);

// Axes are mapped to the machine starting at the mesh's last one: within chips, then nodes, then to whole dims of a torus or to parts of
// them, then across nodes and slices. What is left of an axis that fits none of these is treated as devices on a switch.
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
  std::vector<std::vector<Part>> parts_;                // by axis
  mutable std::map<sharding::AxisList, Group> groups_;  // groups computed so far
};

}  // namespace moesh::cost
