// What `lint` says of axes that lie across slow links, compared with the plan's own collectives.
#include <algorithm>

#include <fmt/core.h>
#include <gmock/gmock.h>

#include "advice/advise.h"
#include "advice/checks.h"
#include "base/text.h"
#include "session/reopen.h"
#include "tests/support.h"

namespace moesh::advice {
namespace {

using ::testing::HasSubstr;
using sharding::Check;
using sharding::Finding;
using sharding::Severity;

std::vector<Finding> slow_links(const std::string& request) {
  const Planned planned = plan_step(test::words_of(request));
  std::vector<Finding> findings;
  find_slow_links({planned.session, planned.step}, findings);
  return findings;
}

Advice advice_of(const std::string& request) {
  const std::vector<std::string> words = test::words_of(request);
  return advise(words, session::reopen(words, session::Evenness::reported));
}

const Finding* slow_link_of(const Advice& advice) {
  const auto found =
      std::find_if(advice.findings.begin(), advice.findings.end(), [](const Finding& f) { return f.check == Check::slow_link; });
  return found == advice.findings.end() ? nullptr : &*found;
}

const std::string kTensorBetween =
    "model_name=llama2-7b compile_topology=v4-32 compile_topology_num_slices=4 dcn_tensor_parallelism=4 ici_fsdp_parallelism=16 "
    "per_device_batch_size=1 ";

TEST(SlowLinks, AreFoundWhetherLayersAreScannedOrNot) {
  const std::string few = kTensorBetween + "override_model_config=true base_num_decoder_layers=4 scan_layers=";
  for (const std::string scanned : {"true", "false"}) {
    const std::vector<Finding> found = slow_links(few + scanned);
    ASSERT_EQ(found.size(), 1u) << scanned;
    EXPECT_EQ(found[0].what, "axis tensor lies across slices (dcn) and carries traffic in every layer");
  }
}

// What a step exchanges over the axis is all of it, also what comes once, such as the gradients' reduction.
TEST(SlowLinks, CountAllThatAStepWaitsForTheAxis) {
  for (const std::string& request :
       {std::string("model_name=mixtral-8x7b compile_topology=h100-64 max_target_length=4096 per_device_batch_size=1 ici_data_parallelism=8 "
                    "ici_fsdp_parallelism=1 ici_expert_parallelism=8 shard_optimizer_over_data=true"),
        kTensorBetween}) {
    SCOPED_TRACE(request);
    const Planned planned = plan_step(test::words_of(request));
    const std::vector<Finding> found = slow_links(request);
    ASSERT_FALSE(found.empty());
    for (const Finding& f : found) {
      double exposed = 0;
      for (const forecast::Sent& sent : planned.step.forecast.collectives) {
        const std::vector<std::string> axes = split(sent.axes, '+');
        if (std::find(axes.begin(), axes.end(), f.about) != axes.end()) exposed += sent.exposed;
      }
      EXPECT_THAT(f.cost, HasSubstr(fmt::format("in a step; kernels wait {} of {} for the axis", human_seconds(exposed),
                                                human_seconds(planned.step.forecast.seconds))));
    }
  }
}

// Slices may also move in part.
TEST(SlowLinks, LoseAPartOfTheirSlices) {
  const std::vector<Finding> found = slow_links(
      "model_name=llama3-8b compile_topology=v5e-16 compile_topology_num_slices=4 dcn_fsdp_parallelism=4 ici_fsdp_parallelism=16 "
      "per_device_batch_size=1 max_target_length=1024");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].tries, ::testing::IsSupersetOf({Keys{"dcn_data_parallelism=4", "dcn_fsdp_parallelism=1"},
                                                       Keys{"dcn_data_parallelism=2", "dcn_fsdp_parallelism=2"}}));
}

// Nearly all of this step waits for weights from other slices, and no axis sizes change that.
TEST(SlowLinks, StayARemarkWhereTheyTakeMostOfAStepAndNothingHelps) {
  const std::string request =
      "model_name=kimi-k2-1t compile_topology=mi355x-8 compile_topology_num_slices=32 dcn_fsdp_parallelism=32 ici_expert_parallelism=8 "
      "ici_fsdp_parallelism=1 max_target_length=4096 per_device_batch_size=8";
  const Advice advice = advice_of(request);
  const Finding* found = slow_link_of(advice);
  ASSERT_NE(found, nullptr) << sharding::to_text(advice.findings);
  EXPECT_EQ(found->severity, Severity::info);
  EXPECT_EQ(found->what, "axis fsdp lies across slices (ethernet) and carries traffic in every layer");
  EXPECT_TRUE(found->fixes.empty());
  EXPECT_THAT(found->fix, HasSubstr("no axis sizes that were tried are faster; `moesh search ...` also tries "));
  EXPECT_THAT(sharding::to_text(advice.findings), HasSubstr("  fix:   no axis sizes "));
}

TEST(SlowLinks, AreToldWithAFixWhereOneHelps) {
  const Advice advice = advice_of(kTensorBetween);
  const Finding* found = slow_link_of(advice);
  ASSERT_NE(found, nullptr) << sharding::to_text(advice.findings);
  EXPECT_EQ(found->severity, Severity::warning);
  EXPECT_FALSE(found->fixes.empty());
}

}  // namespace
}  // namespace moesh::advice
