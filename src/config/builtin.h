// The files of configs/, built into the binary so that it runs from anywhere.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moesh::config {

struct BuiltinFile {
  std::string_view path;  // relative to configs/, e.g. "models/mixtral-8x7b.yml"
  std::string_view text;
};

const BuiltinFile* find_builtin(std::string_view path);

// The names of the files in one folder, without folder and ".yml", sorted.
std::vector<std::string> builtin_names(std::string_view folder);

}  // namespace moesh::config
