// The machine that a plan is made for: slices of one kind of hardware, found by name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mesh/hardware.h"

namespace moesh::mesh {

struct Topology {
  std::string name;  // as the request gives it
  Chip chip;
  // The dims of one slice. On a torus they count chips; with nodes they are {devices}, or {nodes, devices per node}.
  std::vector<std::int64_t> grid;
  std::vector<bool> wrap;  // for each dim, whether it wraps around
  std::int64_t devices_per_slice = 1;
  std::int64_t slices = 1;

  std::int64_t devices() const { return devices_per_slice * slices; }
};

// `name` is KIND-SIZE with a kind of the catalogue ("v5p-128", "h100-16", "cpu-8"), an alias ("a3"), or a hardware file
// of the user's: PATH.yml:SIZE, or PATH.yml alone if its only size is one grid. `where` says in error messages what asked for
// the machine.
Topology find_topology(std::string_view name, std::int64_t slices, const std::string& where = "compile_topology");

// The name of the catalogue that an alias stands for; any other name as it is.
std::string_view meant_by(std::string_view name);

// The names of machines of the same kind as `name` whose slices have `least` to `most` devices, the smallest first. Of grids all are
// listed, of nodes and of single devices those whose number is a power of two.
std::vector<std::string> machines_like(std::string_view name, std::int64_t least, std::int64_t most);

// The multiple of `unit` closest to `wanted` that is the number of devices of a machine of the same kind as `name` with `slices` slices;
// nothing if there is no such machine.
std::optional<std::int64_t> nearest_devices_like(std::string_view name, std::int64_t slices, std::int64_t wanted, std::int64_t unit);

}  // namespace moesh::mesh
