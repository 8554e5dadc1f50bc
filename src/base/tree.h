// Paths as a tree: what neighbours have in common stands once, in a line above them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace moesh {

struct TreeLine {
  std::string text;                 // indented
  std::optional<std::size_t> path;  // its place among the paths; nothing for what several have in common
};

// One line for each path, in their order, and one above each run of at least two that begin with the same folders.
std::vector<TreeLine> tree_of(const std::vector<std::string>& paths, int indent);

// The same lines with whole paths and nothing above them, for what is searched rather than read.
std::vector<TreeLine> list_of(const std::vector<std::string>& paths, int indent);

}  // namespace moesh
