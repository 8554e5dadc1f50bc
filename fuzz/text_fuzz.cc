// Fuzzes texts: any bytes give tokens that keep the rules, with tokenizers of all kinds.
#include "fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto tokenizers = moesh::fuzz::tokenizers_of(MOESH_TOKENIZERS);
  moesh::fuzz::fuzz_text(moesh::fuzz::as_text(data, size), tokenizers);
  return 0;
}
