// The control groups (v1 and v2) that limit this process.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace moesh {

struct ControlGroup {
  std::string folder;
  bool is_first_version = false;
};

// Calls see(group) for each group that this process belongs to by a controller, such as "memory", and for those around it: each
// limits what is in it. A folder may not be there. `root`: where /proc and /sys lie.
void for_control_groups(const std::string& root, std::string_view controller, const std::function<void(const ControlGroup&)>& see);

// The number at the start of a file; none where there is no file, or a word such as "max".
std::optional<std::int64_t> number_in(const std::string& path);

}  // namespace moesh
