#include "base/machine_memory.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <vector>

#include <unistd.h>

#include "base/text.h"

namespace moesh {
namespace {

// The number in a file that holds one; "max" is none.
std::optional<std::int64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  if (!(file >> word)) return std::nullopt;
  return parse_integer(word);
}

// The number behind a word in a file of "word number" lines.
std::optional<std::int64_t> number_behind(const std::string& path, std::string_view word) {
  std::ifstream file(path);
  std::string name;
  std::string rest;
  while (file >> name && std::getline(file, rest)) {
    if (name == word) return parse_integer(split(trim(std::string_view(rest)), ' ').front());
  }
  return std::nullopt;
}

// How a version of control groups spells its files.
struct Spelling {
  const char* mount;
  const char* limit;
  const char* used;
  const char* caches[2];  // in memory.stat: of files, which the kernel takes back before it kills
};

constexpr Spelling kUnified{"/sys/fs/cgroup", "memory.max", "memory.current", {"inactive_file", "active_file"}};
constexpr Spelling kHybrid{"/sys/fs/cgroup/unified", "memory.max", "memory.current", {"inactive_file", "active_file"}};
constexpr Spelling kFirst{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                          {"total_inactive_file", "total_active_file"}};

class Nearest {
 public:
  explicit Nearest(std::string root) : root_(std::move(root)) {}

  void see_machine() {
    const auto kilobytes = number_behind(root_ + "/proc/meminfo", "MemAvailable:");
    if (kilobytes) see(*kilobytes * 1024, "the machine");
  }

  // A group and those around it: each limits what is in it. In a container the group's own path may not be there, and the
  // mount is the group.
  void see_groups(const Spelling& spelling, std::string group) {
    while (true) {
      see_group(spelling, root_ + spelling.mount + (group == "/" ? "" : group));
      if (group.size() <= 1) return;
      group = group.substr(0, std::max<std::size_t>(1, group.find_last_of('/')));
    }
  }

  FreeMemory found() const { return found_; }

 private:
  void see_group(const Spelling& spelling, const std::string& folder) {
    const auto limit = number_in(folder + "/" + spelling.limit);
    const auto used = number_in(folder + "/" + spelling.used);
    if (!limit || !used) return;
    std::int64_t held = *used;
    for (const char* cache : spelling.caches) held -= number_behind(folder + "/memory.stat", cache).value_or(0);
    see(std::max<std::int64_t>(0, *limit - std::max<std::int64_t>(0, held)), folder + "/" + spelling.limit);
  }

  void see(std::int64_t bytes, const std::string& where) {
    if (!found_.where.empty() && found_.bytes <= bytes) return;
    found_ = {bytes, where};
  }

  std::string root_;
  FreeMemory found_;
};

bool holds_memory(std::string_view controllers) {
  const std::vector<std::string> all = split(controllers, ',');
  return std::find(all.begin(), all.end(), "memory") != all.end();
}

}  // namespace

FreeMemory free_memory(const std::string& root) {
  Nearest nearest(root);
  nearest.see_machine();
  std::ifstream groups(root + "/proc/self/cgroup");
  std::string line;
  // "4:memory:/path" of the first version, "0::/path" of the second.
  while (std::getline(groups, line)) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      nearest.see_groups(kUnified, group);
      nearest.see_groups(kHybrid, group);
    } else if (holds_memory(controllers)) {
      nearest.see_groups(kFirst, group);
    }
  }
  return nearest.found();
}

std::int64_t resident_memory() {
  std::ifstream file("/proc/self/statm");
  std::int64_t all = 0;
  std::int64_t resident = 0;
  if (!(file >> all >> resident)) return 0;
  return resident * sysconf(_SC_PAGESIZE);
}

}  // namespace moesh
