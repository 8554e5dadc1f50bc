// `moesh bench decode`.
#pragma once

#include "cli/command.h"

namespace moesh::cli {

int bench_decode(const Arguments& arguments);

}  // namespace moesh::cli
