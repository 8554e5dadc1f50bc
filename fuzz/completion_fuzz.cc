// Fuzzes requests for completions: any bytes give a request that the server can do, or an error for the client.
#include "fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  moesh::fuzz::fuzz_completion(moesh::fuzz::as_text(data, size));
  return 0;
}
