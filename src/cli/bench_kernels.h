// `moesh bench kernels`.
#pragma once

#include "cli/command.h"

namespace moesh::cli {

int bench_kernels(const Arguments& arguments);

}  // namespace moesh::cli
