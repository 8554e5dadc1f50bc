// Fuzzes the config.json of Hugging Face folders: any bytes give a model with a shape, or an error.
#include "fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  moesh::fuzz::fuzz_hugging_face(moesh::fuzz::as_text(data, size));
  return 0;
}
