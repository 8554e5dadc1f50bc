// Fuzzes files of mesh axes and rules, on a small model and mesh.
#include "fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  moesh::fuzz::fuzz_rules(moesh::fuzz::as_text(data, size));
  return 0;
}
