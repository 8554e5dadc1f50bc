// Compares predicted throughputs with published measurements; see tests/golden/throughput/README.md.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/outcome.h"
#include "tests/paths.h"

namespace moesh::cli {
namespace {

struct Row {
  std::string name;
  bool aside = false;
  double published = 0, predicted = 0;

  double error() const { return std::abs(std::log(predicted / published)); }
};

std::vector<Row> predicted_rows() {
  std::vector<Row> rows;
  const std::string path = (test::source_folder() / "tests/golden/throughput/rows.json").string();
  for (const nlohmann::json& row : nlohmann::json::parse(test::read_text(path))) {
    const Outcome outcome = cli::outcome("compile --json " + row["command"].get<std::string>());
    EXPECT_EQ(outcome.code, 0) << row["id"] << outcome.err;
    if (outcome.code != 0) continue;
    const double predicted = nlohmann::json::parse(outcome.out)["tokens_per_second_per_device"];
    rows.push_back({row["id"], row["aside"], row["tokens_per_s_per_device"], predicted});
  }
  return rows;
}

double part(const std::vector<double>& errors, double share) { return errors[static_cast<std::size_t>(std::ceil(share * static_cast<double>(errors.size()))) - 1]; }

// Checks the rows that the constants were chosen by and, separately, the families that were set aside before; and that docs/prediction.md
// tells of each what bench_throughput would print today.
TEST(ThroughputSlow, IsPredictedAsCloselyAsTheDocsSay) {
  const std::vector<Row> rows = predicted_rows();
  for (const bool aside : {false, true}) {
    std::vector<double> errors;
    for (const Row& row : rows) {
      if (row.aside == aside) errors.push_back(row.error());
    }
    ASSERT_GT(errors.size(), 20u);
    std::sort(errors.begin(), errors.end());
    EXPECT_LT(part(errors, 0.5), 0.2) << aside;
    EXPECT_LT(part(errors, 0.9), 0.46) << aside;
  }
  const std::string docs = test::read_text(test::source_folder() / "docs/prediction.md");
  for (const Row& row : rows)
    EXPECT_THAT(docs, testing::ContainsRegex(fmt::format(" {} +{:.1f} +{:.1f} ", row.name, row.published, row.predicted)));
}

}  // namespace
}  // namespace moesh::cli
