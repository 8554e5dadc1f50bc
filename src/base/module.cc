#include "base/module.h"

namespace moesh {

std::filesystem::path module_place(const std::string& name) {
  const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const std::filesystem::path above = folder.parent_path() / name;
  return !std::filesystem::exists(folder / name) && std::filesystem::exists(above) ? above : folder / name;
}

}  // namespace moesh
