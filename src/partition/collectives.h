// The collectives of a partitioned graph and the bytes that they send: the list behind plans, tables and explanations.
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
  Shape shape;                  // global; in a region, the shape on one device
  std::int64_t group = 1;       // devices that take part in one collective
  std::int64_t runs = 1;        // runs per step
  std::int64_t operand_bytes = 0;  // bytes that one device hands in, per run
  std::optional<std::int64_t> bound_bytes;  // the most that it may hand in, if that depends on the router
  double wire_bytes = 0;           // bytes that leave the device, per run
  bool in_region = false;

  double total_wire_bytes() const { return wire_bytes * static_cast<double>(runs); }
};

// All nodes that are collectives (graph::collective_of), with the runs of those in a repeat's body multiplied by its iterations. Rows
// that are sent to experts and back are counted as for a balanced router, with the token numbers that are sent along.
std::vector<Collective> collectives_of(const graph::Graph& graph, const mesh::Mesh& mesh);

// One run of the node, which must be a collective.
Collective collective_of(const graph::Graph& graph, const graph::Node& node, const mesh::Mesh& mesh);

// The collectives of a region's body after split_region, on the shapes of one device.
std::vector<Collective> collectives_of_region(const graph::Graph& body);

}  // namespace moesh::partition
