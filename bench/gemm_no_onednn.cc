// Replaces gemm_onednn.cc if oneDNN is not installed.
#include "gemm_contestants.h"

namespace moesh::bench {

std::optional<Library> onednn() { return std::nullopt; }
std::optional<Library> onednn_padded() { return std::nullopt; }

}  // namespace moesh::bench
