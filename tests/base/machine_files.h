// Fake copies of the files in which a kernel describes the machine, with contents that a test chooses.
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
  std::string root() const { return folder_.path(); }  // The folder that stands for "/".

 private:
  TemporaryFolder folder_;
};

}  // namespace moesh::test
