// Replaces gemm_openblas.cc if OpenBLAS is not installed.
#include "gemm_contestants.h"

namespace moesh::bench {

std::optional<Library> openblas() { return std::nullopt; }

}  // namespace moesh::bench
