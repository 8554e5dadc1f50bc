// `moesh lint`, which `moesh shardings --lint` runs too.
#pragma once

#include "cli/command.h"

namespace moesh::cli {

int run_lint(const Arguments& arguments);

}  // namespace moesh::cli
