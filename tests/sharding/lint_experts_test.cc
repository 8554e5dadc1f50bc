#include "sharding/lint_experts.h"

#include <gmock/gmock.h>

#include "tests/support.h"

namespace moesh::sharding {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<Finding> findings_of(const std::string& request) {
  const std::string model = "model_name=deepseek3-tiny override_model_config=true base_num_decoder_layers=2 first_num_dense_layers=1 "
                            "dataset_type=synthetic max_target_length=128 per_device_batch_size=1 ";
  return lint_experts(session::open(test::words_of(model + request)).layout);
}

// With eight experts per token over two devices, every token needs both devices, so sending each token once
// costs less than sending a row per expert.
TEST(LintExperts, NamesTheCheaperWayForTokensToTravel) {
  const std::vector<Finding> found = findings_of("ici_fsdp_parallelism=4 ici_expert_parallelism=2");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].check, Check::dearer_strategy);
  EXPECT_EQ(found[0].tries.front(), Keys{"use_ring_of_experts=true"});
  EXPECT_EQ(found[0].gain, Gain::speed);
  EXPECT_THAT(found[0].what, HasSubstr("an all-to-all sends more than a ring would"));
  EXPECT_THAT(findings_of("ici_fsdp_parallelism=4 ici_expert_parallelism=2 use_ring_of_experts=true"), IsEmpty());
}

TEST(LintExperts, NamesTheExchangeWhereATokenHasFewExperts) {
  const std::vector<Finding> found =
      findings_of("ici_fsdp_parallelism=1 ici_expert_parallelism=8 use_ring_of_experts=true num_experts_per_tok=1 n_routing_groups=-1 topk_routing_group=-1");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].tries.front(), Keys{"use_ring_of_experts=false"});
}

// With one expert per token over four devices that share all tokens, summing the layer's results costs most.
TEST(LintExperts, SaysWhatItCostsThatDevicesShareTheirTokens) {
  const std::vector<Finding> found = findings_of(
      "custom_mesh_and_rule=ep-tp ici_fsdp_parallelism=2 ici_expert_parallelism=4 num_experts_per_tok=1 n_routing_groups=-1 topk_routing_group=-1");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].check, Check::shared_tokens);
  EXPECT_THAT(found[0].what, HasSubstr("4 devices along expert have the same"));
}

TEST(LintExperts, SaysNothingWhereEveryDeviceHasAllExperts) {
  EXPECT_THAT(findings_of("custom_mesh_and_rule=pure-fsdp ici_fsdp_parallelism=8"), IsEmpty());
}

}  // namespace
}  // namespace moesh::sharding
