// Recorded cases: their folders, their names, and tests named after them.
#pragma once

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/paths.h"

namespace moesh::test {

inline const std::filesystem::path kRecordedRuns = source_folder() / "tests/golden/models";
inline const std::filesystem::path kRecordedLayouts = source_folder() / "tests/golden/layouts";

// The names of the cases in a folder. A case is a JSON file or a folder; a leading underscore marks files that several cases share.
inline std::vector<std::string> cases_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string file = entry.path().filename().string();
    if (file.starts_with("_")) continue;
    if (entry.is_directory()) names.push_back(file);
    else if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// The name as an identifier, as test names require it.
inline std::string identifier(std::string name) {
  const auto refused = [](unsigned char c) { return std::isalnum(c) == 0; };
  std::replace_if(name.begin(), name.end(), refused, '_');
  return name;
}

inline std::string test_name(const ::testing::TestParamInfo<std::string>& test) { return identifier(test.param); }

}  // namespace moesh::test
