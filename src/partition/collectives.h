// What a partitioned graph sends: the list that plans, tables and explanations are made from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "mesh/mesh.h"

namespace moesh::partition {

struct Collective {
  std::string path;
  graph::ReshardOf::Kind kind = graph::ReshardOf::Kind::all_gather;
  sharding::AxisList axes;
  Shape shape;                  // of the whole value; in a region, of the device's own
  std::int64_t group = 1;       // devices that take part together
  std::int64_t runs = 1;        // in a step
  std::int64_t operand_bytes = 0;  // that a device hands in, a run
  std::optional<std::int64_t> bound_bytes;  // that it hands in at most, where that is for the router to say
  double wire_bytes = 0;           // of these, what leaves the device, a run
  bool in_region = false;

  double total_wire_bytes() const { return wire_bytes * static_cast<double>(runs); }
};

// The nodes that are collectives (graph::collective_of); those of a repeat's body count as often as it runs. Rows that are sent
// to experts and back are counted as an even router would send them, with the tokens' numbers where these go along.
std::vector<Collective> collectives_of(const graph::Graph& graph, const mesh::Mesh& mesh);

// What the node, which is a collective, sends in one run.
Collective collective_of(const graph::Graph& graph, const graph::Node& node, const mesh::Mesh& mesh);

// Those of a region's body that is split (split_region.h), on the shapes of one device.
std::vector<Collective> collectives_of_region(const graph::Graph& body);

}  // namespace moesh::partition
