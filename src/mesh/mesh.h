// The mesh: ordered named axes with sizes, and which device stands at which coordinates.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/settings.h"
#include "mesh/axis_list.h"
#include "mesh/topology.h"

namespace moesh::mesh {

struct Axis {
  std::string name;
  std::int64_t ici = 1;  // within a slice
  std::int64_t dcn = 1;  // across slices

  std::int64_t size() const { return ici * dcn; }
};

enum class Level { ici, dcn };

// The key that sizes an axis: ici_pipeline_parallelism for "stage", ici_fsdp_parallelism for "fsdp".
std::string key_for(Level level, std::string_view axis);

class Mesh;
// What makes the second mesh of a request for the first, whose axes it has: "ici_fsdp_parallelism=4" and so on.
std::vector<std::string> keys_between(const Mesh& from, const Mesh& to);

class Mesh {
 public:
  explicit Mesh(std::vector<Axis> axes);

  const std::vector<Axis>& axes() const { return axes_; }
  const Axis& axis(AxisIndex index) const { return axes_[index]; }
  std::optional<AxisIndex> find(std::string_view name) const;
  std::int64_t size_of(std::string_view name) const;  // 1 for an axis the mesh lacks
  std::int64_t devices() const;

  // Devices are numbered slice by slice; within a slice, and among slices, the last axis varies fastest.
  std::vector<std::int64_t> coordinates_of(std::int64_t device) const;
  std::int64_t device_at(const std::vector<std::int64_t>& coordinates) const;

 private:
  std::vector<Axis> axes_;
};

// The hardware that the settings name: compile_topology, or else this machine's cores as virtual devices, as many as
// the axis sizes multiply to (8 when one of them is left open).
Topology target_of(const config::Settings& settings);

// Axis sizes from ici_*_parallelism and dcn_*_parallelism, at most one of each -1 (what is left). Products that do not
// fit the target name every factor.
Mesh build_mesh(const config::Settings& settings, const Topology& target);

}  // namespace moesh::mesh
