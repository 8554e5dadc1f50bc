#include "base/module.h"

#include <dlfcn.h>

namespace moesh {

std::filesystem::path module_place(const std::string& name) {
  const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const std::filesystem::path above = folder.parent_path() / name;
  return !std::filesystem::exists(folder / name) && std::filesystem::exists(above) ? above : folder / name;
}

ModuleEntry open_module(const std::filesystem::path& place, const char* entry, bool shares) {
  void* module = ::dlopen(place.c_str(), RTLD_NOW | (shares ? RTLD_GLOBAL : RTLD_LOCAL));
  void* address = module == nullptr ? nullptr : ::dlsym(module, entry);
  if (address != nullptr) return {address, ""};
  const char* error = ::dlerror();
  return {nullptr, error == nullptr ? "it is empty" : error};
}

}  // namespace moesh
