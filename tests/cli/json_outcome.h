// The JSON that a command line prints.
#pragma once

#include <nlohmann/json.hpp>

#include "tests/cli/outcome.h"

namespace moesh::cli {

inline nlohmann::json json_of(const std::string& line) {
  const Outcome made = outcome(line);
  EXPECT_EQ(made.code, 0) << made.err;
  return nlohmann::json::parse(made.out);
}

}  // namespace moesh::cli
