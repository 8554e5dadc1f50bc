// What a change of settings moves.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sharding/diff.h"
#include "tests/support.h"

namespace moesh::sharding {
namespace {

using ::testing::HasSubstr;

LayoutDiff diff_of(const std::string& before, const std::string& change) {
  return diff(test::session(before).layout, test::session(before + " " + change).layout);
}

const Difference* find(const LayoutDiff& diff, const std::string& kind, const std::string& path) {
  for (const Difference& d : diff.differences) {
    if (d.kind == kind && d.path == path) return &d;
  }
  return nullptr;
}

const std::string kLlama = "model_name=llama2-7b compile_topology=v6e-8";
const std::string kMixtral =
    "model_name=mixtral-8x7b compile_topology=v6e-8 ici_expert_parallelism=4 sparse_matmul=false capacity_factor=1.25";

TEST(Diff, SaysThatNothingMoves) {
  const LayoutDiff same = diff_of(kLlama, "steps=7");
  EXPECT_TRUE(same.differences.empty());
  EXPECT_EQ(same.state_bytes_before, same.state_bytes_after);
  EXPECT_EQ(to_text(same, 0), "nothing moves.\n");
}

TEST(Diff, ShowsTheActivationsThatAFlagMoves) {
  const LayoutDiff moved = diff_of(kMixtral, "moe_dispatch_no_expert_sharding=true");
  ASSERT_EQ(moved.differences.size(), 3u);
  const Difference* dispatched = find(moved, "activation", "decoder/layers/MoeBlock_0/dispatched");
  ASSERT_NE(dispatched, nullptr);
  EXPECT_EQ(dispatched->before->spec, "[-, (fsdp, expert), -, -]");
  EXPECT_EQ(dispatched->after->spec, "[expert, fsdp, -, -]");
  EXPECT_EQ(dispatched->before->bytes, dispatched->after->bytes);
  EXPECT_EQ(moved.state_bytes_before, moved.state_bytes_after);
}

TEST(Diff, ShowsWhatAnotherMeshMovesAndCosts) {
  const LayoutDiff moved = diff_of(kLlama, "ici_fsdp_parallelism=4 ici_data_parallelism=2");
  const Difference* kernel = find(moved, "parameter", "decoder/layers/mlp/wi_0/kernel");
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(kernel->after->bytes, 2 * kernel->before->bytes);
  EXPECT_EQ(moved.state_bytes_after, 2 * moved.state_bytes_before);
  EXPECT_NE(find(moved, "optimizer", "mu/decoder/layers/mlp/wi_0/kernel"), nullptr);
  const std::string text = to_text(moved, 0);
  EXPECT_THAT(text, HasSubstr("\noptimizer state"));
  EXPECT_THAT(text, HasSubstr("\nparameters"));
  EXPECT_THAT(text, HasSubstr("decoder/layers/mlp/wi_0/kernel"));
  EXPECT_THAT(
      text, HasSubstr("tensors move. Parameters and optimizer state on a device: 9.41 GiB -> 18.8 GiB (+9.41 GiB).\n"));
}

TEST(Diff, ShowsWhatAppearsAndWhatGoes) {
  const LayoutDiff moved = diff_of(kMixtral, "sparse_matmul=true");
  const Difference* gone = find(moved, "activation", "decoder/layers/MoeBlock_0/dispatched");
  ASSERT_NE(gone, nullptr);
  EXPECT_TRUE(gone->before.has_value());
  EXPECT_FALSE(gone->after.has_value());
  const Difference* added = find(moved, "activation", "decoder/layers/MoeBlock_0/w0_kernel");
  ASSERT_NE(added, nullptr);
  EXPECT_FALSE(added->before.has_value());
  EXPECT_THAT(to_text(moved, 0), HasSubstr("(absent)"));
}

TEST(Diff, CountsOneTensorAsOne) {
  LayoutDiff diff;
  diff.differences.push_back({"activation", "decoder/x", Side{"[8]", "[fsdp]", 4}, Side{"[8]", "[-]", 8}});
  EXPECT_THAT(to_text(diff, 0), HasSubstr("\n1 tensor moves. Parameters"));
}

TEST(Diff, ShowsAnotherShape) {
  const LayoutDiff moved = diff_of(kLlama, "per_device_batch_size=6");
  EXPECT_NE(find(moved, "activation", "decoder/layers/inputs"), nullptr);
  EXPECT_EQ(find(moved, "parameter", "decoder/layers/mlp/wi_0/kernel"), nullptr);
}

TEST(Diff, IsAlsoJson) {
  const auto json = nlohmann::json::parse(to_json(diff_of(kMixtral, "sparse_matmul=true")));
  EXPECT_EQ(json["state_bytes_per_device"]["before"], json["state_bytes_per_device"]["after"]);
  ASSERT_FALSE(json["differences"].empty());
  for (const auto& d : json["differences"]) EXPECT_TRUE(d["before"].is_object() || d["after"].is_object());
  EXPECT_TRUE(nlohmann::json::parse(to_json(LayoutDiff{}))["differences"].empty());
}

}  // namespace
}  // namespace moesh::sharding
