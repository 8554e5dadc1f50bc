// Where the sources and the binary under test are.
#pragma once

#include <filesystem>
#include <string>

namespace moesh::test {

std::filesystem::path source_folder();
std::string binary();

}  // namespace moesh::test
