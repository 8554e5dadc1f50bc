// Shared libraries that are opened only when they are needed.
#pragma once

#include <filesystem>
#include <string>

namespace moesh {

inline constexpr const char* kMpiModule = "libmoesh_mpi.so";
inline constexpr const char* kHttpModule = "libmoesh_http.so";

// The path of a library: beside this program, or in the folder above, where the tests find it. Beside the program if it is in neither.
std::filesystem::path module_place(const std::string& name);

// What an opened library has under a name; null if it cannot be opened or has no such thing, with the system's reason.
struct ModuleEntry {
  void* address = nullptr;
  std::string error;
};
// `shares`: other libraries that are opened later see what it has.
ModuleEntry open_module(const std::filesystem::path& place, const char* entry, bool shares);

}  // namespace moesh
