// The figures of what `lint` says of state that devices along an axis hold alike, compared with the layout.
#include <fmt/core.h>
#include <gmock/gmock.h>

#include "advice/checks.h"
#include "base/text.h"
#include "tests/support.h"

namespace moesh::advice {
namespace {

using sharding::Check;
using sharding::Finding;

const std::string kData = "model_name=llama2-7b compile_topology=h100-8 ici_data_parallelism=2 ici_fsdp_parallelism=4 per_device_batch_size=1 ";

std::vector<Finding> repeated_state(const Planned& planned) {
  std::vector<Finding> findings;
  find_repeated({planned.session, planned.step}, {}, findings);
  std::erase_if(findings, [](const Finding& f) { return f.check != Check::repeated_state; });
  return findings;
}

std::int64_t bytes_of(const std::vector<sharding::LaidTensor>& tensors, const mesh::Mesh& mesh) {
  std::int64_t bytes = 0;
  for (const sharding::LaidTensor& tensor : tensors) bytes += bytes_per_device(tensor, mesh);
  return bytes;
}

TEST(RepeatedState, IsToldWithItsShareOfTheMemory) {
  const Planned planned = plan_step(test::words_of(kData));
  const std::vector<Finding> found = repeated_state(planned);
  ASSERT_EQ(found.size(), 1u);
  const std::int64_t state = bytes_of(planned.session.layout.parameters, planned.session.mesh) +
                             bytes_of(planned.session.layout.moments, planned.session.mesh);
  EXPECT_EQ(found[0].what, fmt::format("the 2 devices along data have the same {} of parameters and moments each", human_bytes(state)));
  const double share = static_cast<double>(state) / static_cast<double>(planned.step.forecast.usable_memory);
  EXPECT_EQ(found[0].cost, fmt::format("{:.0f} % of a device's memory; spread over them {}", 100 * share, human_bytes(state / 2)));
}

// Parameters that leave an axis out are what devices along it have alike: one finding says so, however many axes it names.
TEST(RepeatedState, IsNotToldAgainOfAnAxisThatParametersLeaveOut) {
  const Planned planned = plan_step(test::words_of(kData));
  std::vector<Finding> findings{{sharding::Severity::warning, Check::sharding_tolerance, "data, expert", "", "", ""}};
  findings[0].unused_axes = {"data", "expert"};
  find_repeated({planned.session, planned.step}, {}, findings);
  EXPECT_EQ(findings.size(), 1u) << sharding::to_text(findings);
}

// Moments that wait in the host's memory take nothing of a device's.
TEST(RepeatedState, IsWithoutMomentsOnTheHost) {
  const Planned planned = plan_step(test::words_of(kData + "optimizer_memory_host_offload=true"));
  EXPECT_TRUE(repeated_state(planned).empty());
  const std::vector<Repeated> repeated = repeated_along({planned.session, planned.step});
  ASSERT_EQ(repeated.size(), 2u);
  EXPECT_EQ(repeated[0].state, bytes_of(planned.session.layout.parameters, planned.session.mesh));
  const Planned large = plan_step(test::words_of(
      "model_name=llama2-13b compile_topology=h100-8 ici_data_parallelism=8 ici_fsdp_parallelism=1 per_device_batch_size=1 "
      "max_target_length=512 weight_dtype=bfloat16 optimizer_memory_host_offload=true"));
  ASSERT_TRUE(large.step.forecast.fits());
  const std::vector<Finding> found = repeated_state(large);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].what, fmt::format("the 8 devices along data have the same {} of parameters each",
                                       human_bytes(bytes_of(large.session.layout.parameters, large.session.mesh))));
}

// No rule of MaxText's names the labels of the kernels by which DeepSeek 4's heads go out.
TEST(WholeWeights, AreToldWithARuleThatShardsThem) {
  const std::string request = "model_name=deepseek4-284b compile_topology=v5p-512 ici_fsdp_parallelism=32 ici_expert_parallelism=8 per_device_batch_size=1 ";
  const auto found = [](const std::string& words) {
    const Planned planned = plan_step(test::words_of(words));
    std::vector<Finding> findings;
    find_repeated({planned.session, planned.step}, {}, findings);
    std::erase_if(findings, [](const Finding& f) { return f.check != Check::whole_weights; });
    return findings;
  };
  const std::vector<Finding> whole = found(request);
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_THAT(whole[0].what, testing::HasSubstr("of some parameters with their moments: no rule names o_groups, o_lora_up_proj"));
  const std::string rule = "logical_axis_rules=[[o_lora_up_proj,[fsdp]]]";
  EXPECT_THAT(whole[0].tries, testing::Contains(testing::ElementsAre(rule)));
  EXPECT_TRUE(found(request + rule).empty());
  EXPECT_TRUE(found(kData).empty());
}

}  // namespace
}  // namespace moesh::advice
