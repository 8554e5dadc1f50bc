// Fuzzes the config.json of Hugging Face folders: any bytes end in a model with a shape, or in an error.
#include "fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  moesh::fuzz::fuzz_hugging_face(moesh::fuzz::as_text(data, size));
  return 0;
}
