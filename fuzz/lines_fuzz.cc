// Fuzzes JSON Lines as data: any bytes give documents that keep their rules, or an error.
#include "fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  moesh::fuzz::fuzz_lines(moesh::fuzz::as_text(data, size));
  return 0;
}
