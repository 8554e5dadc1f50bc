// The hardware catalogue: the figures of one device of each kind, and the slice sizes in which the kind comes.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/yaml.h"

namespace moesh::mesh {

// The devices that a link connects: those of a chip, of a node of a few devices, of a slice, or all.
enum class Domain { chip, node, slice, all };

struct Link {
  std::string kind;        // ici, nvlink, infinity-fabric, infiniband, ...
  bool is_memory = false;  // of the kind `memory`: the host's, in which virtual devices of one machine leave bytes for each other
  Domain domain = Domain::all;
  // The rate at which bytes leave one device in one direction, over all its ports together. With one port (a switch) all of it can
  // go to any one peer; with several (a torus, a mesh of direct links) a neighbour gets the share of one port.
  double bytes_per_second = 0;
  double latency_seconds = 0;
  std::int64_t ports = 1;
  double reached = 0.8;  // the share of that rate that large collectives reach; the default is from eight H100: 350 to 360 of 450 GB/s
};

// Slices that are grids of chips. A dim wraps around into a ring if every dim is a multiple of `wrap_all_multiples_of`, or
// if the dim is at least `wrap_at_least`.
struct GridSizes {
  std::vector<std::vector<std::int64_t>> grids;
  std::int64_t number_per_chip = 1;  // the number in a machine's name divided by the grid's chips
  std::optional<std::int64_t> wrap_all_multiples_of;
  std::optional<std::int64_t> wrap_at_least;
};

// Slices that have a power of two devices within one node, or whole nodes.
struct NodeSizes {
  std::int64_t node = 1;  // devices of a node
  std::int64_t most = 1;  // devices of the largest slice
};

// Slices of any number of devices.
struct AnySizes {
  std::int64_t most = 1;
};

// The last two dims of an array are stored in tiles of this many rows and columns of 4-byte elements; of narrower elements, each row of a
// tile holds several. A compiler is free to choose which dims are the last.
struct MemoryTile {
  std::int64_t rows = 1;
  std::int64_t columns = 1;
};

// A measured point: the seconds that an op took for an amount of work, in FLOPs for products and attention, in bytes for other ops.
struct TimedWork {
  double work = 0;
  double seconds = 0;
};

// The times of kernels and collectives if the devices share one machine, measured there with one instruction after the other on all
// cores. The key is the op and its dtype, "einsum bfloat16"; the points go from the least work to the most.
using MeasuredTimes = std::map<std::string, std::vector<TimedWork>, std::less<>>;

// How exact products of float32 are on units for narrower numbers. TPUs multiply in one, three or six passes of bf16; many GPUs in TF32,
// unless the highest precision is asked for.
enum class Precision : std::uint8_t { lowest, high, highest };

// Figures are per device, and rates are peak rates. Of devices that share one measured machine they are the machine's: the rates of all its
// threads, and memory that the devices divide (find_topology).
struct Chip {
  std::string name;   // "v5p", or the path of a file
  std::string title;  // "Google TPU v5p"
  std::optional<double> bf16_flops_per_second;
  std::optional<double> fp8_flops_per_second;
  std::optional<std::array<double, 3>> f32_flops_per_second;  // by Precision
  Precision precision = Precision::lowest;                    // that the run asks for
  std::optional<double> int8_flops_per_second;
  // The measured share of those rates that large matrix products of the best shapes reach. That of fp8 holds for int8 too.
  double bf16_reached = 0.8;
  double fp8_reached = 0.8;
  std::int64_t matrix_tile = 128;  // rows and columns of a matrix product's tile; the rest of a partial tile is idle
  std::int64_t memory_bytes = 0;
  std::int64_t usable_memory_bytes = 0;  // the part available to programs; memory_bytes if the source does not say
  std::optional<MemoryTile> memory_tile;  // none: arrays are stored dense
  double memory_bytes_per_second = 0;
  std::optional<double> host_bytes_per_second;  // to the host's memory and, at the same time, from it
  std::vector<Link> links;  // from the nearest domain to the farthest
  MeasuredTimes measured;   // empty for devices that are separate chips; devices that share a machine take turns on it
  std::int64_t devices_per_chip = 1;
  std::variant<GridSizes, NodeSizes, AnySizes> sizes;
  std::vector<std::string> source;  // public documents

  std::optional<double> f32_rate() const {
    if (!f32_flops_per_second) return std::nullopt;
    return (*f32_flops_per_second)[static_cast<std::size_t>(precision)];
  }
  bool has_rate_by_precision() const { return f32_flops_per_second && f32_flops_per_second->front() != f32_flops_per_second->back(); }
  bool is_shared_machine() const { return !measured.empty(); }
  // Whether devices use the host's memory, as the virtual devices of one machine do, which have no memory of their own.
  bool has_memory_of_host() const {
    return std::any_of(links.begin(), links.end(), [](const Link& link) { return link.is_memory; });
  }
};

std::string_view name_of(Domain domain);

std::int64_t chips_of(const std::vector<std::int64_t>& grid);

// The kinds of hardware in configs/hardware/, sorted.
std::vector<std::string> hardware_names();

// Checks and reads one hardware file. Examples to start from: configs/hardware/v5p.yml for a torus, h100.yml for nodes.
Chip load_chip(const config::YamlNode& file, std::string name);

// The file of one kind in the catalogue, which must be one of hardware_names().
Chip load_builtin_chip(const std::string& name);

}  // namespace moesh::mesh
