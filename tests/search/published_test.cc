// For published runs the search finds no slower layout than the one that was published.
#include <algorithm>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "search/search.h"
#include "tests/paths.h"
#include "tests/support.h"

namespace moesh::search {
namespace {

struct Published {
  const char* request;
  const char* layout;  // the published one
};

constexpr Published kPublished[] = {
    // MaxText's recipe for Mixtral-8x7B on TPU v5p
    {"model_name=mixtral-8x7b compile_topology=v5p-128 max_target_length=4096 per_device_batch_size=36 weight_dtype=bfloat16",
     "ici_fsdp_parallelism=64 remat_policy=full"},
    // NeMo's recipe for Mixtral-8x7B on 256 H200
    {"model_name=mixtral-8x7b compile_topology=h200-256 max_target_length=4096 per_device_batch_size=4 sparse_matmul=false capacity_factor=1",
     "ici_fsdp_parallelism=32 ici_expert_parallelism=8 moe_dispatch_no_expert_sharding=true per_device_batch_size=2 "
     "gradient_accumulation_steps=2 remat_policy=everything"},
    // a benchmark of DeepSeek-V3 by MaxText on eight nodes of B200
    {"model_name=deepseek3-671b compile_topology=b200-8 compile_topology_num_slices=8 max_target_length=4096 per_device_batch_size=4 "
     "weight_dtype=bfloat16 sparse_matmul=false capacity_factor=1.25",
     "ici_fsdp_parallelism=1 ici_expert_parallelism=8 dcn_fsdp_parallelism=8 moe_dispatch_no_expert_sharding=true remat_policy=full"},
    // MaxText's recipe for Llama-3.1-70B on 32 nodes of H200
    {"model_name=llama3.1-70b compile_topology=h200-8 compile_topology_num_slices=32 max_target_length=8192 per_device_batch_size=2",
     "ici_fsdp_parallelism=8 dcn_data_parallelism=2 dcn_fsdp_parallelism=16 remat_policy=save_dot_with_context_except_mlp"},
    // the log in MaxText's guide to its metrics: DeepSeek-V2-Lite on TPU v5p
    {"model_name=deepseek2-16b compile_topology=v5p-8 max_target_length=2048 per_device_batch_size=24",
     "ici_fsdp_parallelism=4 remat_policy=full"},
};

TEST(SearchPublishedSlow, FindsNoneSlower) {
  std::vector<double> speedups;
  for (const Published& published : kPublished) {
    SCOPED_TRACE(published.request);
    const std::vector<std::string> request = test::words_of(published.request);
    const std::vector<std::string> layout = test::words_of(published.layout);
    const std::optional<advice::Planned> planned = advice::try_keys(request, layout);
    ASSERT_TRUE(planned);
    const Outcome outcome = search(request, {.most_plans = 600, .threads = 2});
    ASSERT_FALSE(outcome.front.empty());
    speedups.push_back(found_of(layout, planned->session, planned->step.forecast).seconds_per_token() /
                       outcome.front.front().seconds_per_token());
    EXPECT_GE(speedups.back(), 0.999);
  }
  const auto [least, most] = std::minmax_element(speedups.begin(), speedups.end());
  const std::string range = fmt::format("predicted to be {:.2f} to {:.2f} times as fast", *least, *most);
  EXPECT_THAT(test::read_text(test::source_folder() / "docs/planning.md"), testing::HasSubstr(range));
}

}  // namespace
}  // namespace moesh::search
