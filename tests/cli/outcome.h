// Runs whole command lines in process.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "cli/command.h"
#include "tests/support.h"

namespace moesh::cli {

struct Outcome {
  int code;
  std::string out, err;
};

inline Outcome outcome_of(const std::vector<std::string>& words) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const int code = run(words);
  std::fflush(stdout);
  std::fflush(stderr);
  return {code, ::testing::internal::GetCapturedStdout(), ::testing::internal::GetCapturedStderr()};
}

inline Outcome outcome(const std::string& line) { return outcome_of(test::words_of(line)); }

}  // namespace moesh::cli
