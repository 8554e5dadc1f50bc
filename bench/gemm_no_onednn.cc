// Stands in for gemm_onednn.cc where oneDNN is not installed.
#include "gemm_contestants.h"

namespace moesh::bench {

std::optional<Library> onednn() { return std::nullopt; }
std::optional<Library> onednn_padded() { return std::nullopt; }

}  // namespace moesh::bench
