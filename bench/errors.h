// How a bench ends when what it measures fails.
#pragma once

#include <cstdio>
#include <exception>

#include <fmt/core.h>

namespace moesh::bench {

// The exit code of `measure()`, or what went wrong on stderr and 1.
template <typename Measure>
int with_errors_told(Measure measure) {
  try {
    return measure();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}

}  // namespace moesh::bench
