// Fuzzes the index of a checkpoint: any bytes give an index that keeps its rules, or an error.
#include "fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  moesh::fuzz::fuzz_index(moesh::fuzz::as_text(data, size));
  return 0;
}
