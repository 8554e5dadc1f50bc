#include "mesh/owners.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/error.h"

namespace moesh::mesh {

Owners::Owners(const Mesh& mesh, std::vector<int> of_device) : mesh_(mesh), of_device_(std::move(of_device)) {
  if (static_cast<std::int64_t>(of_device_.size()) != mesh_.devices()) {
    fail(fmt::format("owners of {} devices, the mesh has {}", of_device_.size(), mesh_.devices()));
  }
  devices_.resize(static_cast<std::size_t>(*std::max_element(of_device_.begin(), of_device_.end())) + 1);
  for (std::size_t device = 0; device < of_device_.size(); ++device) {
    devices_[static_cast<std::size_t>(of_device_[device])].push_back(mesh_.coordinates_of(static_cast<std::int64_t>(device)));
  }
  for (std::size_t owner = 0; owner < devices_.size(); ++owner) {
    if (devices_[owner].empty()) fail(fmt::format("owner {} of {} has no device", owner, devices_.size()));
  }
}

Owners Owners::in_a_row(const Mesh& mesh, int count) {
  const std::int64_t devices = mesh.devices();
  if (count < 1 || count > devices) {
    refuse(fmt::format("{} owners for {} devices", count, devices), "owners", "as many as there are devices at most");
  }
  std::vector<int> of_device;
  for (std::int64_t device = 0; device < devices; ++device) of_device.push_back(static_cast<int>(device * count / devices));
  return {mesh, std::move(of_device)};
}

}  // namespace moesh::mesh
