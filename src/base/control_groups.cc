#include "base/control_groups.h"

#include <algorithm>
#include <fstream>
#include <vector>

#include "base/text.h"

namespace moesh {
namespace {

// In a container the group's own path may not exist, and the mount point is the group.
void see_upwards(const std::string& mount, std::string group, bool is_first_version, const std::function<void(const ControlGroup&)>& see) {
  while (true) {
    see({mount + (group == "/" ? "" : group), is_first_version});
    if (group.size() <= 1) return;
    group = group.substr(0, std::max<std::size_t>(1, group.find_last_of('/')));
  }
}

}  // namespace

void for_control_groups(const std::string& root, std::string_view controller, const std::function<void(const ControlGroup&)>& see) {
  const std::string mount = root + "/sys/fs/cgroup";
  std::ifstream groups(root + "/proc/self/cgroup");
  std::string line;
  // "4:cpu,cpuacct:/path" in version 1, "0::/path" in version 2.
  while (std::getline(groups, line)) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    const std::vector<std::string> all = split(controllers, ',');
    if (controllers.empty()) {
      see_upwards(mount, group, false, see);
      see_upwards(mount + "/unified", group, false, see);
    } else if (std::find(all.begin(), all.end(), controller) != all.end()) {
      see_upwards(mount + "/" + std::string(controller), group, true, see);
      if (all.size() > 1) see_upwards(mount + "/" + controllers, group, true, see);
    }
  }
}

std::optional<std::int64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  if (!(file >> word)) return std::nullopt;
  return parse_integer(word);
}

}  // namespace moesh
