// Fuzzes command lines: any words end in a layout with all its reports, or in an error.
#include "fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  moesh::fuzz::fuzz_overrides(moesh::fuzz::as_text(data, size));
  return 0;
}
