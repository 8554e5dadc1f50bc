// The files in which a kernel tells of a machine, as a test wants them.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support.h"

namespace moesh::test {

class MachineFiles {
 public:
  void put(const std::string& path, const std::string& text) {
    const auto at = std::filesystem::path(root() + path);
    std::filesystem::create_directories(at.parent_path());
    std::ofstream(at) << text;
  }
  std::string root() const { return folder_.path(); }  // "/" of the machine

 private:
  TemporaryFolder folder_;
};

}  // namespace moesh::test
