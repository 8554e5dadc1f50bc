// The hardware catalogue: what one device of each kind can do, and the slices that the kind comes in.
#pragma once

#include <algorithm>
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

// How far a link reaches: within a chip, a node of a few devices, a slice, or between all devices.
enum class Domain { chip, node, slice, all };

struct Link {
  std::string kind;  // ici, nvlink, infinity-fabric, infiniband, ...
  Domain domain = Domain::all;
  // What leaves one device in one direction, over all its ports together. With one port (a switch) all of it can go to
  // any one peer; with several (a torus, a mesh of direct links) a neighbour gets its port's share.
  double bytes_per_second = 0;
  double latency_seconds = 0;
  std::int64_t ports = 1;
  double reached = 0.8;  // the share of its rate at which large collectives run; here as on eight H100: 350 to 360 of 450 GB/s
};

// Slices that are grids of chips. A dim's ring is closed when every dim is a multiple of `wrap_all_multiples_of`, or
// when the dim is at least `wrap_at_least`.
struct GridSizes {
  std::vector<std::vector<std::int64_t>> grids;
  std::int64_t number_per_chip = 1;  // the number in a name, divided by the grid's chips
  std::optional<std::int64_t> wrap_all_multiples_of;
  std::optional<std::int64_t> wrap_at_least;
};

// Slices that are a power of two within one node, or whole nodes.
struct NodeSizes {
  std::int64_t node = 1;  // devices
  std::int64_t most = 1;  // devices
};

// Slices of any number of devices.
struct AnySizes {
  std::int64_t most = 1;
};

// What an op took for so much work: FLOPs of products and attention, bytes of the others.
struct TimedWork {
  double work = 0;
  double seconds = 0;
};

// How long kernels and exchanges take where devices share one machine: measured there, one instruction after the other on all its
// cores. By what is done and the type of its numbers, "einsum bfloat16"; each from the least work to the most.
using MeasuredTimes = std::map<std::string, std::vector<TimedWork>, std::less<>>;

// All figures are those of one device, and peaks.
struct Chip {
  std::string name;   // "v5p", or the path of a file
  std::string title;  // "Google TPU v5p"
  std::optional<double> bf16_flops_per_second;
  std::optional<double> fp8_flops_per_second;
  std::optional<double> f32_flops_per_second;
  std::optional<double> int8_flops_per_second;
  // The share of those rates that the best shapes of large products were measured to reach; fp8's also for int8.
  double bf16_reached = 0.8;
  double fp8_reached = 0.8;
  std::int64_t matrix_tile = 128;  // rows and columns of a product that are made together: one that ends within leaves the rest idle
  std::int64_t memory_bytes = 0;
  std::int64_t usable_memory_bytes = 0;  // what is left for programs; memory_bytes when the source does not say
  double memory_bytes_per_second = 0;
  std::optional<double> host_bytes_per_second;  // to the host's memory and, at the same time, from it
  std::vector<Link> links;  // from the nearest domain to the farthest
  MeasuredTimes measured;   // empty for devices that are chips of their own; those that share a machine take turns on it
  std::int64_t devices_per_chip = 1;
  std::variant<GridSizes, NodeSizes, AnySizes> sizes;
  std::vector<std::string> source;  // public documents

  bool is_shared_machine() const { return !measured.empty(); }
  // Devices that a machine plays have no memory of their own.
  bool has_memory_of_host() const {
    return std::any_of(links.begin(), links.end(), [](const Link& link) { return link.kind == "memory"; });
  }
};

std::string_view name_of(Domain domain);

std::int64_t chips_of(const std::vector<std::int64_t>& grid);

// The kinds in configs/hardware/, sorted.
std::vector<std::string> hardware_names();

// Checks and reads one hardware file. Patterns to start from: configs/hardware/v5p.yml for a torus, h100.yml for nodes.
Chip load_chip(const config::YamlNode& file, std::string name);

// The file of one kind in the catalogue, which must be one of hardware_names().
Chip load_builtin_chip(const std::string& name);

}  // namespace moesh::mesh
