// Fuzzes the reader of YAML: any bytes give a tree within its limits, or an error.
#include "fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  moesh::fuzz::fuzz_yaml(moesh::fuzz::as_text(data, size));
  return 0;
}
