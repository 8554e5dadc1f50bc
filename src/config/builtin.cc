#include "config/builtin.h"

#include <algorithm>

#include "config/builtin_files.h"

namespace moesh::config {

const BuiltinFile* find_builtin(std::string_view path) {
  const auto files = builtin_files();
  const auto found = std::find_if(files.begin(), files.end(), [&](const BuiltinFile& f) { return f.path == path; });
  return found == files.end() ? nullptr : &*found;
}

std::vector<std::string> builtin_names(std::string_view folder) {
  std::vector<std::string> names;
  for (const BuiltinFile& file : builtin_files()) {
    const std::size_t slash = file.path.find('/');
    if (slash == std::string_view::npos || file.path.substr(0, slash) != folder) continue;
    const std::string_view name = file.path.substr(slash + 1);
    names.emplace_back(name.substr(0, name.size() - std::string_view(".yml").size()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace moesh::config
