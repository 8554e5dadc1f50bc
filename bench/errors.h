// How a benchmark ends when an error is thrown.
#pragma once

#include <cstdio>
#include <exception>

#include <fmt/core.h>

#include "base/error.h"

namespace moesh::bench {

// The exit code of `measure()`. If it throws, prints the error to stderr and returns the exit code that `moesh` itself would return.
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
