// Assigns the devices of a mesh to processes, their owners.
#pragma once

#include <cstdint>
#include <vector>

#include "mesh/mesh.h"

namespace moesh::mesh {

using Coordinates = std::vector<std::int64_t>;  // a device's index along each mesh axis

class Owners {
 public:
  // One owner of all devices.
  explicit Owners(const Mesh& mesh) : Owners(mesh, std::vector<int>(static_cast<std::size_t>(mesh.devices()), 0)) {}
  // `of_device`: the owner of each device. Owners are numbered from 0, and each has at least one device.
  Owners(const Mesh& mesh, std::vector<int> of_device);
  // `count` owners of consecutive devices, whose numbers of devices differ by at most one.
  static Owners in_a_row(const Mesh& mesh, int count);

  int count() const { return static_cast<int>(devices_.size()); }
  int of(const Coordinates& device) const { return of_device_[static_cast<std::size_t>(mesh_.device_at(device))]; }
  const std::vector<Coordinates>& devices(int owner) const { return devices_[static_cast<std::size_t>(owner)]; }
  const Mesh& mesh() const { return mesh_; }

 private:
  Mesh mesh_;
  std::vector<int> of_device_;
  std::vector<std::vector<Coordinates>> devices_;  // by owner
};

}  // namespace moesh::mesh
