// How a bench ends when what it measures fails.
#pragma once

#include <cstdio>
#include <exception>

#include <fmt/core.h>

#include "base/error.h"

namespace moesh::bench {

// The exit code of `measure()`, or what went wrong on stderr and the code that `moesh` itself would end with.
template <typename Measure>
int with_errors_told(Measure measure) {
  try {
    return measure();
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}

}  // namespace moesh::bench
