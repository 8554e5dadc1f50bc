// The table of built-in files, which the build makes of configs/ (cmake/embed.cmake).
#pragma once

#include <span>

#include "config/builtin.h"

namespace moesh::config {

std::span<const BuiltinFile> builtin_files();

}  // namespace moesh::config
