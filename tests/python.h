// The Python interpreter whose libraries read what moesh wrote.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace moesh::test {

// The interpreter that MOESH_PYTHON names, or python3; none if it lacks a module. `modules` is a list such as "torch, transformers".
inline std::optional<std::string> python_with(const std::string& modules) {
  const char* const named = std::getenv("MOESH_PYTHON");
  std::string python = named == nullptr ? "python3" : named;
  if (std::system((python + " -c 'import " + modules + "' 2>/dev/null").c_str()) != 0) return std::nullopt;
  return python;
}

}  // namespace moesh::test
