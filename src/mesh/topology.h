// A machine that a plan is made for: slices of one kind of hardware, found by name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mesh/hardware.h"

namespace moesh::mesh {

struct Topology {
  std::string name;  // as it was asked for
  Chip chip;
  // One slice. On a torus the dims count chips; on nodes they are {devices}, or {nodes, devices of a node}.
  std::vector<std::int64_t> grid;
  std::vector<bool> wrap;  // for each dim, whether its ends are joined
  std::int64_t devices_per_slice = 1;
  std::int64_t slices = 1;

  std::int64_t devices() const { return devices_per_slice * slices; }
};

// `name` is KIND-SIZE with a kind of the catalogue ("v5p-128", "h100-16", "cpu-8"), an alias ("a3"), or a hardware file
// of the user's: PATH.yml:SIZE, or PATH.yml alone when its only size is one grid. `where` stands in messages for what
// asked for it.
Topology find_topology(std::string_view name, std::int64_t slices, const std::string& where = "compile_topology");

// Machines of the kind of `name` whose slices have `least` to `most` devices, the smallest first: all grids; of nodes and of single
// devices those whose number is a power of two.
std::vector<std::string> machines_like(std::string_view name, std::int64_t least, std::int64_t most);

// How many devices one instance of the link's domain connects: the devices that a collective can reach over it.
std::int64_t domain_devices(const Topology& topology, const Link& link);

}  // namespace moesh::mesh
