// What a change of settings moves, and the bytes it saves or costs a device.
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
};

struct Difference {
  std::string kind;  // "parameter", "optimizer", "activation"
  std::string path;
  std::optional<Side> before, after;  // absent where the tensor does not exist
};

struct LayoutDiff {
  std::vector<Difference> differences;
  std::int64_t state_bytes_before = 0;  // parameters and optimizer, a device
  std::int64_t state_bytes_after = 0;
};

LayoutDiff diff(const Layout& before, const Layout& after);
std::string to_text(const LayoutDiff& diff, int width);
std::string to_json(const LayoutDiff& diff);

}  // namespace moesh::sharding
