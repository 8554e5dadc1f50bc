// Fuzzes the reader of printed graphs.
#include "fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  moesh::fuzz::fuzz_graph(moesh::fuzz::as_text(data, size));
  return 0;
}
