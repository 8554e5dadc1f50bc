// Paths as a tree: the part that neighbours have in common is written once, in a line above them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace moesh {

struct TreeLine {
  std::string text;                 // indented
  std::optional<std::size_t> path;  // its index among the paths; nothing for a common part
};

// One line per path, in order, and one above each run of at least two paths that begin with the same folders.
std::vector<TreeLine> tree_of(const std::vector<std::string>& paths, int indent);

// One line per whole path and no common parts, for output that is searched rather than read.
std::vector<TreeLine> list_of(const std::vector<std::string>& paths, int indent);

}  // namespace moesh
