// Libraries that are opened only when somebody needs them.
#pragma once

#include <filesystem>
#include <string>

namespace moesh {

inline constexpr const char* kMpiModule = "libmoesh_mpi.so";
inline constexpr const char* kHttpModule = "libmoesh_http.so";

// Where one lies: beside this program, or in the folder above, as beside its tests. Beside it where it lies nowhere.
std::filesystem::path module_place(const std::string& name);

}  // namespace moesh
