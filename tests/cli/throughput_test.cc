// Compares predicted throughputs with published measurements; see tests/golden/throughput/README.md.
#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/outcome.h"
#include "tests/paths.h"

namespace moesh::cli {
namespace {

// |ln(predicted / published)|, sorted.
std::vector<double> errors_of(bool aside) {
  std::vector<double> errors;
  const std::string path = (test::source_folder() / "tests/golden/throughput/rows.json").string();
  for (const nlohmann::json& row : nlohmann::json::parse(test::read_text(path))) {
    if (row["aside"] != aside) continue;
    const Outcome outcome = cli::outcome("compile --json " + row["command"].get<std::string>());
    EXPECT_EQ(outcome.code, 0) << row["id"] << outcome.err;
    if (outcome.code != 0) continue;
    const double predicted = nlohmann::json::parse(outcome.out)["tokens_per_second_per_device"];
    errors.push_back(std::abs(std::log(predicted / row["tokens_per_s_per_device"].get<double>())));
  }
  std::sort(errors.begin(), errors.end());
  return errors;
}

double part(const std::vector<double>& errors, double share) { return errors[static_cast<std::size_t>(std::ceil(share * static_cast<double>(errors.size()))) - 1]; }

// Checks the rows that the constants were chosen by and, separately, the families that were set aside before.
TEST(ThroughputSlow, IsPredictedAsClosely) {
  for (const bool aside : {false, true}) {
    const std::vector<double> errors = errors_of(aside);
    ASSERT_GT(errors.size(), 20u);
    EXPECT_LT(part(errors, 0.5), 0.2) << aside;
    EXPECT_LT(part(errors, 0.9), 0.45) << aside;
  }
}

}  // namespace
}  // namespace moesh::cli
