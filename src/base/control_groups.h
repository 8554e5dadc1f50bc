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

// Calls see(group) for each group of a controller, such as "memory", that this process belongs to, and for the groups around it: each
// limits all that is in it. The folder of a group may not exist. `root`: the folder that /proc and /sys are in.
void for_control_groups(const std::string& root, std::string_view controller, const std::function<void(const ControlGroup&)>& see);

// The number at the start of a file; nothing if there is no file, or it starts with a word such as "max".
std::optional<std::int64_t> number_in(const std::string& path);

}  // namespace moesh
