#include "tests/paths.h"

namespace moesh::test {

std::filesystem::path source_folder() { return MOESH_SOURCE_DIR; }
std::string binary() { return MOESH_BINARY; }

}  // namespace moesh::test
