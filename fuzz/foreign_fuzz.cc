// Fuzzes commands of other programs: any bytes give keys that exist, or an error.
#include "fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  moesh::fuzz::fuzz_foreign(moesh::fuzz::as_text(data, size));
  return 0;
}
