// Fuzzes the reader of tokenizer.json: any bytes give a tokenizer that keeps its rules on a text, or an error.
#include "fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  moesh::fuzz::fuzz_tokenizer(moesh::fuzz::as_text(data, size));
  return 0;
}
