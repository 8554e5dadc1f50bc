// The space of a search: what the request leaves open, and nothing else.
#include "search/space.h"

#include <set>

#include <fmt/core.h>
#include <gmock/gmock.h>

#include "base/text.h"
#include "tests/support.h"

namespace moesh::search {
namespace {

using ::testing::Contains;

bool names(const Keys& keys, const std::string& key) {
  return std::any_of(keys.begin(), keys.end(), [&](const std::string& one) { return one.starts_with(key + "="); });
}

// Gives one key at a time for each thing that the search otherwise chooses.
TEST(Space, LeavesWhatTheRequestGives) {
  const std::string model = "model_name=mixtral-8x7b compile_topology=v5p-32 ";  // 16 devices
  const auto says = [&](const std::string& given, const std::string& key) {
    const Space space = space_of(filled(test::words_of(model + given)));
    EXPECT_FALSE(space.candidates.empty()) << given;
    bool is_said = false;
    for (const Candidate& candidate : space.candidates) {
      is_said = is_said || names(candidate.keys, key);
      for (const auto* settings : {&candidate.remats, &candidate.passes}) {
        for (const Keys& keys : *settings) is_said = is_said || names(keys, key);
      }
    }
    return is_said;
  };
  for (const std::string given : {"custom_mesh_and_rule=ep-as-cp", "ici_fsdp_parallelism=4", "ici_expert_parallelism=2", "ici_tensor_parallelism=1",
                                  "ici_context_parallelism=2", "remat_policy=minimal", "use_ring_of_experts=false"}) {
    const std::string key = given.substr(0, given.find('='));
    EXPECT_TRUE(says("", key)) << key;
    EXPECT_FALSE(says(given, key)) << given;
  }
  EXPECT_TRUE(says("", "per_device_batch_size"));
  EXPECT_TRUE(says("per_device_batch_size=4", "gradient_accumulation_steps")) << "the same batch in more passes";
  EXPECT_FALSE(says("per_device_batch_size=4 gradient_accumulation_steps=2", "gradient_accumulation_steps"));
  EXPECT_TRUE(says("sparse_matmul=false capacity_factor=1.25", "moe_dispatch_no_expert_sharding"));
  EXPECT_FALSE(says("sparse_matmul=false capacity_factor=1.25 moe_dispatch_no_expert_sharding=true", "moe_dispatch_no_expert_sharding"));
  EXPECT_FALSE(says("sparse_matmul=false capacity_factor=1.25", "use_ring_of_experts"));
}

TEST(Space, TakesABatchInEveryNumberOfPassesThatDividesIt) {
  for (int rows = 1; rows <= 24; ++rows) {
    const Space space = space_of(test::words_of(fmt::format("model_name=llama2-7b compile_topology=v5p-8 custom_mesh_and_rule=pure-fsdp "
                                                            "per_device_batch_size={}", rows)));
    ASSERT_FALSE(space.candidates.empty());
    for (int parts = 2; parts <= rows; ++parts) {
      const Keys keys{fmt::format("per_device_batch_size={}", rows / parts), fmt::format("gradient_accumulation_steps={}", parts)};
      if (rows % parts != 0) continue;
      EXPECT_THAT(space.candidates[0].passes, Contains(keys)) << rows;
    }
  }
}

TEST(Space, FillsTheMachineWhereSizesLeaveDevicesOver) {
  const auto last = [](const std::string& request) { return filled(test::words_of("model_name=mixtral-8x7b " + request)).back(); };
  EXPECT_EQ(last("compile_topology=v5p-32 ici_fsdp_parallelism=4"), "ici_data_parallelism=-1");
  EXPECT_EQ(last("compile_topology=v5p-32 ici_fsdp_parallelism=16"), "ici_fsdp_parallelism=16");
  EXPECT_EQ(last("compile_topology=v5p-32 ici_fsdp_parallelism=3"), "ici_fsdp_parallelism=3") << "which the search then refuses";
  EXPECT_EQ(last("compile_topology=v5p-32 ici_data_parallelism=2 ici_fsdp_parallelism=4"), "ici_fsdp_parallelism=4");
}

TEST(Space, DividesSlicesAndWhatIsWithinThem) {
  const Space space = space_of(test::words_of("model_name=llama2-7b compile_topology=v5e-16 compile_topology_num_slices=4"));
  EXPECT_THAT(space.candidates, Contains(::testing::Field(&Candidate::keys, Contains("dcn_fsdp_parallelism=4"))));
  for (const Candidate& candidate : space.candidates) {
    const session::Session session = test::session(
        "model_name=llama2-7b per_device_batch_size=16 compile_topology=v5e-16 compile_topology_num_slices=4 " + join(candidate.keys, " "));
    EXPECT_EQ(session.mesh.devices(), 64) << join(candidate.keys, " ");
  }
}

// A layout is too large, and counted so, if its parameters and moments alone take more than a device's memory.
TEST(Space, LeavesOutWhatItsStateAloneMakesTooLarge) {
  const Space space = space_of(test::words_of("model_name=llama2-70b compile_topology=v5e-64"));
  EXPECT_GT(space.too_large, 0);
  for (const Candidate& candidate : space.candidates) EXPECT_LE(candidate.state_bytes, space.usable_memory);
  const Space none = space_of(test::words_of("model_name=llama2-70b compile_topology=v5e-4"));
  EXPECT_TRUE(none.candidates.empty());
  EXPECT_GT(none.least_state, none.usable_memory);
}

TEST(Space, VariesTheBestByOneMoreChange) {
  const std::string sparse = "model_name=mixtral-8x7b compile_topology=v5p-32";
  const Candidate spread{{"ici_data_parallelism=2", "ici_fsdp_parallelism=8"}, 2, 1, 1, {{}, {"remat_policy=minimal"}}, {{}}, {}};
  const auto variants = [&](const std::string& request) {
    std::set<std::string> last;
    for (const Candidate& variant : variants_of(spread, test::words_of(request)))
      last.insert(variant.remats.size() == 1 ? variant.remats.front().front() : variant.keys.back());
    return last;
  };
  const std::string remat = "remat_policy=save_dot_with_context_except_mlp", moments = "shard_optimizer_over_data=true";
  EXPECT_EQ(variants(sparse), (std::set<std::string>{"num_moe_token_chunks=2", "num_moe_token_chunks=4", moments, remat}));
  EXPECT_EQ(variants(sparse + " num_moe_token_chunks=1"), (std::set<std::string>{moments, remat}));
  const std::string takes_turns = "model_name=deepseek3-671b compile_topology=v5p-32 num_moe_token_chunks=1";
  EXPECT_EQ(variants(takes_turns), (std::set<std::string>{"logical_axis_rules=[[expert_only,[expert]]]", moments, remat}));
  EXPECT_EQ(variants(takes_turns + " batch_split_factor=1"), (std::set<std::string>{moments, remat}));
  EXPECT_EQ(variants("model_name=llama2-7b compile_topology=v5p-32"), (std::set<std::string>{moments, remat}));
}

}  // namespace
}  // namespace moesh::search
