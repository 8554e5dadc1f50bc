#include "base/machine_memory.h"

#include <algorithm>
#include <fstream>
#include <optional>

#include <unistd.h>

#include "base/control_groups.h"
#include "base/text.h"

namespace moesh {
namespace {

// The number after a word in a file of "word number" lines.
std::optional<std::int64_t> number_behind(const std::string& path, std::string_view word) {
  std::ifstream file(path);
  std::string name;
  std::string rest;
  while (file >> name && std::getline(file, rest)) {
    if (name == word) return parse_integer(split(trim(std::string_view(rest)), ' ').front());
  }
  return std::nullopt;
}

// The file names of a version of control groups.
struct Spelling {
  const char* limit;
  const char* used;
  const char* caches[2];  // in memory.stat: file caches, which the kernel reclaims before it kills
};

constexpr Spelling kFirst{"memory.limit_in_bytes", "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}};
constexpr Spelling kSecond{"memory.max", "memory.current", {"inactive_file", "active_file"}};

class Nearest {
 public:
  void see_machine(const std::string& root) {
    const auto kilobytes = number_behind(root + "/proc/meminfo", "MemAvailable:");
    if (kilobytes) see(*kilobytes * 1024, "the machine");
  }

  void see_group(const ControlGroup& group) {
    const Spelling& spelling = group.is_first_version ? kFirst : kSecond;
    const auto limit = number_in(group.folder + "/" + spelling.limit);
    const auto used = number_in(group.folder + "/" + spelling.used);
    if (!limit || !used) return;
    std::int64_t held = *used;
    for (const char* cache : spelling.caches) held -= number_behind(group.folder + "/memory.stat", cache).value_or(0);
    see(std::max<std::int64_t>(0, *limit - std::max<std::int64_t>(0, held)), group.folder + "/" + spelling.limit);
  }

  FreeMemory found() const { return found_; }

 private:
  void see(std::int64_t bytes, const std::string& where) {
    if (!found_.where.empty() && found_.bytes <= bytes) return;
    found_ = {bytes, where};
  }

  FreeMemory found_;
};

}  // namespace

FreeMemory free_memory(const std::string& root) {
  Nearest nearest;
  nearest.see_machine(root);
  for_control_groups(root, "memory", [&](const ControlGroup& group) { nearest.see_group(group); });
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
