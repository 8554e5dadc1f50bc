// Fuzzes the reader of saved plans.
#include "fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  moesh::fuzz::fuzz_plan(moesh::fuzz::as_text(data, size));
  return 0;
}
