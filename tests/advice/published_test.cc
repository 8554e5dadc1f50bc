// Compares predictions of whether a step fits with published runs that fitted or ran out of memory; see tests/golden/fits/README.md.
#include <nlohmann/json.hpp>

#include "advice/fit.h"
#include "tests/paths.h"
#include "tests/support.h"

namespace moesh::advice {
namespace {

nlohmann::json published_cases() {
  return nlohmann::json::parse(test::read_text((test::source_folder() / "tests/golden/fits/cases.json").string()));
}

// A case with `wrong` is known to be predicted wrongly. If its prediction becomes right, the table in docs/prediction.md must change too.
// Predictions would be worth little if the same answer were right for most cases, so of both kinds at least five are predicted right.
TEST(PublishedFits, ArePredictedAsTheTableSays) {
  int right[2] = {0, 0};
  for (const nlohmann::json& one : published_cases()) {
    SCOPED_TRACE(one["name"].get<std::string>());
    const forecast::Forecast made = plan_step(test::words_of(one["keys"].get<std::string>())).step.forecast;
    const bool predicted = made.fits() && !made.fits_narrowly();
    const bool fits = one["fits"].get<bool>();
    EXPECT_EQ(predicted == fits, !one.contains("wrong"));
    right[fits] += predicted == fits;
  }
  EXPECT_GE(right[false], 5);
  EXPECT_GE(right[true], 5);
}

}  // namespace
}  // namespace moesh::advice
