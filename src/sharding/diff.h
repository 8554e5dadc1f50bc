// What a change of settings moves, what travels for it, and the bytes it saves or costs a device.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sharding/layout.h"

namespace moesh::sharding {

struct Side {
  std::string shape;
  std::string spec;
  std::int64_t bytes = 0;  // a device
  std::int64_t replicas = 1;
};

// What a device has to be sent that it does not hold: to go on from a checkpoint, or from the state of a run, in the other layout.
struct Travel {
  double bytes = 0;  // to all devices together
  double most = 0;   // to one of them
};

struct Difference {
  std::string kind;  // "parameter", which its moments go with; "optimizer", where they lie otherwise; "activation"
  std::string path;
  std::optional<Side> before, after;  // absent where the tensor does not exist
  Travel travel = {};                 // of state
};

struct LayoutDiff {
  mesh::Mesh mesh_before{{}}, mesh_after{{}};
  std::vector<Difference> differences;
  std::int64_t state_bytes_before = 0;  // parameters and optimizer, a device
  std::int64_t state_bytes_after = 0;
  std::int64_t activation_bytes_before = 0;  // of those that differ, each once, a device
  std::int64_t activation_bytes_after = 0;
  Travel travel = {};

  bool moves_state() const;
};

// A tensor differs where some device has another part of it: not where the axes have other names.
LayoutDiff diff(const Layout& before, const Layout& after);

struct DiffOptions {
  bool activations = false;  // list them even where state moves too
  int width = 0;             // of the terminal; 0: as wide as it gets
};
std::string to_text(const LayoutDiff& diff, const DiffOptions& options);
std::string to_json(const LayoutDiff& diff);

}  // namespace moesh::sharding
