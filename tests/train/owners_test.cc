// Devices spread over owners that communicate only by messages train to the same bits as in one process.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "tests/recorded.h"
#include "tests/train/trainer_support.h"
#include "train/reference_run.h"

namespace moesh::train {
namespace {

using test::Training;

std::string request_of(const std::string& layout) {
  std::string request;
  for (const std::string& word : read_reference_run((test::kRecordedLayouts / (layout + ".json")).string()).request) request += word + " ";
  return request + "dataset_type=synthetic init_weights_seed=3 ";
}

// All results of two steps.
struct Trace {
  std::vector<double> metrics;
  std::vector<std::vector<std::byte>> parameters;

  bool operator==(const Trace&) const = default;
};

Trace trace(const std::string& request) {
  Training training(request);
  Trace made;
  for (std::int64_t step = 0; step < 2; ++step) {
    const StepMetrics metrics = training.trainer.step(training.batch(step));
    made.metrics.insert(made.metrics.end(), {metrics.loss, metrics.raw_grad_norm, metrics.param_norm});
    made.metrics.insert(made.metrics.end(), metrics.load.sent.begin(), metrics.load.sent.end());
  }
  const run::Audit audit = training.trainer.audit();
  EXPECT_EQ(audit.difference(), "") << request;
  for (const run::AuditLine& line : audit.collectives) made.metrics.push_back(static_cast<double>(line.bytes));
  for (const Trained& trained : training.trainer.parameters()) {
    const run::Array array = training.trainer.parameter(trained.path);
    made.parameters.emplace_back(array.raw(), array.raw() + array.bytes());
  }
  return made;
}

class OwnersSlow : public ::testing::TestWithParam<std::string> {};

TEST_P(OwnersSlow, HaveTheBitsOfOne) {
  const std::string request = request_of(GetParam());
  const Trace alone = trace(request);
  EXPECT_TRUE(std::isfinite(alone.metrics.front()));
  const std::vector<std::string> counts = test::kIsSanitized ? std::vector<std::string>{"4"} : std::vector<std::string>{"2", "4", "8"};
  for (const std::string& owners : counts) EXPECT_TRUE(trace(request + "owners=" + owners) == alone) << owners;
}

// The reference backend alone runs every op and collective that the layouts need, and gives the same losses up to rounding.
TEST_P(OwnersSlow, AndThePlainBackendAgrees) {
  const std::string request = request_of(GetParam()) + "dtype=float32 weight_dtype=float32 ";
  const auto losses = [&](const std::string& backend) {
    Training training(request + backend);
    std::vector<double> made;
    for (std::int64_t step = 0; step < 2; ++step) made.push_back(training.trainer.step(training.batch(step)).loss);
    return made;
  };
  const std::vector<double> fast = losses(""), plain = losses("backend=reference");
  for (std::size_t step = 0; step < fast.size(); ++step) EXPECT_NEAR(plain[step], fast[step], 2e-5 * std::abs(fast[step])) << step;
}

INSTANTIATE_TEST_SUITE_P(Recorded, OwnersSlow, ::testing::ValuesIn(test::cases_in(test::kRecordedLayouts)),
                         test::test_name);

TEST(Owners, AreNoMoreThanDevices) {
  EXPECT_EQ(test::message_of([] { Training(test::kTinyModel + "compile_topology=cpu-2 owners=3"); }),
            "owners: 3 owners for 2 devices\n  fix: as many as there are devices at most");
}

}  // namespace
}  // namespace moesh::train
