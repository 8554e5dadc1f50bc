// The device mesh: an ordered list of named axes with sizes, and the coordinates of each device.
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

enum class Level { ici, dcn };

struct Axis {
  std::string name;
  std::int64_t ici = 1;  // size within a slice
  std::int64_t dcn = 1;  // size across slices

  std::int64_t size() const { return ici * dcn; }
  std::int64_t size_at(Level level) const { return level == Level::ici ? ici : dcn; }
  std::int64_t& size_at(Level level) { return level == Level::ici ? ici : dcn; }
};

// The setting that gives an axis its size: ici_pipeline_parallelism for "stage", ici_fsdp_parallelism for "fsdp".
std::string key_for(Level level, std::string_view axis);
// Whether a setting of this name sizes an axis, of any mesh.
bool sizes_axis(std::string_view key);

class Mesh;
// The settings that change a request for mesh `from` to one for mesh `to`, which has the same axes: "ici_fsdp_parallelism=4".
std::vector<std::string> keys_between(const Mesh& from, const Mesh& to);

// The mesh with that many times as many devices along `to`, and as many times fewer along `from`, whose size they divide.
Mesh with_moved(const Mesh& mesh, AxisIndex from, AxisIndex to, std::int64_t times, Level level = Level::ici);

class Mesh {
 public:
  explicit Mesh(std::vector<Axis> axes);

  const std::vector<Axis>& axes() const { return axes_; }
  const Axis& axis(AxisIndex index) const { return axes_[index]; }
  std::optional<AxisIndex> find(std::string_view name) const;
  std::int64_t size_of(std::string_view name) const;  // 1 for an axis that the mesh lacks
  std::int64_t devices() const;

  // Devices are numbered slice by slice; within a slice, and among slices, the last axis varies fastest.
  std::vector<std::int64_t> coordinates_of(std::int64_t device) const;
  std::int64_t device_at(const std::vector<std::int64_t>& coordinates) const;

 private:
  std::vector<Axis> axes_;
};

// The hardware that the settings name in compile_topology. If they name none, it is this machine's cores as virtual devices, with as
// many devices as the product of the axis sizes (8 if one of them is -1).
Topology target_of(const config::Settings& settings);

// Builds the mesh from ici_*_parallelism and dcn_*_parallelism. One size of each group may be -1, which takes the devices that are
// left. If a product of sizes does not fit the target, the error names every factor.
Mesh build_mesh(const config::Settings& settings, const Topology& target);

}  // namespace moesh::mesh
