// Compares two layouts: the tensors that move, the bytes that must be sent for it, and the bytes that a device saves or needs more.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sharding/layout.h"

namespace moesh::sharding {

// A tensor in one of the two layouts.
struct Side {
  std::string shape;
  std::string spec;
  std::int64_t bytes = 0;  // per device
  std::int64_t replicas = 1;
};

// The bytes that devices lack and must receive to continue from a checkpoint, or from the state of a run, in the other layout.
struct Travel {
  double bytes = 0;  // to all devices together
  double most = 0;   // to the device that receives most
};

struct Difference {
  // A parameter with its moments, a moment with another spec than its parameter, or an activation.
  enum class Kind : std::uint8_t { parameter, moment, activation };
  Kind kind = Kind::parameter;
  std::string path;
  std::optional<Side> before, after;  // absent if the tensor does not exist there
  Travel travel = {};                 // for state only

  bool is_state() const { return kind != Kind::activation; }
};

struct LayoutDiff {
  mesh::Mesh mesh_before{{}}, mesh_after{{}};
  std::vector<Difference> differences;
  std::int64_t state_bytes_before = 0;  // parameters and optimizer state, per device
  std::int64_t state_bytes_after = 0;
  std::int64_t activation_bytes_before = 0;  // of the activations that differ, each counted once, per device
  std::int64_t activation_bytes_after = 0;
  Travel travel = {};

  bool moves_state() const;
};

// A tensor differs if some device has another block of it. Other axis names alone are no difference.
LayoutDiff diff(const Layout& before, const Layout& after);

struct DiffOptions {
  bool activations = false;  // list activations even if state moves too
  int width = 0;             // of the terminal; 0: unlimited
  std::string filter = {};   // that both layouts were limited to (sharding/report.h)
};
std::string to_text(const LayoutDiff& diff, const DiffOptions& options);
std::string to_json(const LayoutDiff& diff);

}  // namespace moesh::sharding
