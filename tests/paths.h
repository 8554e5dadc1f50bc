// Locations of the sources and of the binary under test.
#pragma once

#include <filesystem>
#include <string>

namespace moesh::test {

std::filesystem::path source_folder();
std::string binary();

}  // namespace moesh::test
