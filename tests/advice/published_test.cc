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
TEST(PublishedFits, ArePredictedAsTheTableSays) {
  for (const nlohmann::json& one : published_cases()) {
    SCOPED_TRACE(one["name"].get<std::string>());
    const forecast::Forecast made = plan_step(test::words_of(one["keys"].get<std::string>())).step.forecast;
    const bool predicted = made.fits() && !made.fits_narrowly();
    EXPECT_EQ(predicted == one["fits"].get<bool>(), !one.contains("wrong"));
  }
}

// Predictions would be worth little if the same answer were right for most cases.
TEST(PublishedFits, AreOfBothKindsAndFiveOfEachArePredictedRight) {
  int right[2] = {0, 0};
  for (const nlohmann::json& one : published_cases()) right[one["fits"].get<bool>()] += !one.contains("wrong");
  EXPECT_GE(right[false], 5);
  EXPECT_GE(right[true], 5);
}

}  // namespace
}  // namespace moesh::advice
