// Which process has which devices of a mesh.
#pragma once

#include <cstdint>
#include <vector>

#include "mesh/mesh.h"

namespace moesh::mesh {

using Coordinates = std::vector<std::int64_t>;  // of a device, along each axis

class Owners {
 public:
  // One that has all devices.
  explicit Owners(const Mesh& mesh) : Owners(mesh, std::vector<int>(static_cast<std::size_t>(mesh.devices()), 0)) {}
  // By the device's number. Owners are numbered from 0, and each has a device.
  Owners(const Mesh& mesh, std::vector<int> of_device);
  // As many devices in a row for each, as far as they go.
  static Owners in_a_row(const Mesh& mesh, int count);

  int count() const { return static_cast<int>(devices_.size()); }
  int of(const Coordinates& device) const { return of_device_[static_cast<std::size_t>(mesh_.device_at(device))]; }
  const std::vector<Coordinates>& devices(int owner) const { return devices_[static_cast<std::size_t>(owner)]; }
  const Mesh& mesh() const { return mesh_; }

 private:
  Mesh mesh_;
  std::vector<int> of_device_;
  std::vector<std::vector<Coordinates>> devices_;  // of each owner
};

}  // namespace moesh::mesh
