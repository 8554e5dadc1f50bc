// What a change of settings moves between devices.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sharding/diff.h"
#include "tests/support.h"

namespace moesh::sharding {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Kind = Difference::Kind;

LayoutDiff diff_of(const std::string& before, const std::string& change) {
  return diff(test::session(before).layout, test::session(before + " " + change).layout);
}

const Difference* find(const LayoutDiff& diff, Kind kind, const std::string& path) {
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
  EXPECT_EQ(to_text(same, {}), "nothing moves.\n");
}

TEST(Diff, ShowsTheActivationsThatAFlagMoves) {
  const LayoutDiff moved = diff_of(kMixtral, "moe_dispatch_no_expert_sharding=true");
  ASSERT_EQ(moved.differences.size(), 3u);
  const Difference* dispatched = find(moved, Kind::activation, "decoder/layers/MoeBlock_0/dispatched");
  ASSERT_NE(dispatched, nullptr);
  EXPECT_EQ(dispatched->before->spec, "[-, (fsdp, expert), -, -]");
  EXPECT_EQ(dispatched->after->spec, "[expert, fsdp, -, -]");
  EXPECT_EQ(dispatched->before->bytes, dispatched->after->bytes);
  EXPECT_EQ(moved.state_bytes_before, moved.state_bytes_after);
}

TEST(Diff, ShowsWhatAnotherMeshMovesAndCosts) {
  const LayoutDiff moved = diff_of(kLlama, "ici_fsdp_parallelism=4 ici_data_parallelism=2");
  const Difference* kernel = find(moved, Kind::parameter, "decoder/layers/mlp/wi_0/kernel");
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(kernel->after->bytes, 2 * kernel->before->bytes);
  EXPECT_EQ(moved.state_bytes_after, 2 * moved.state_bytes_before);
  EXPECT_EQ(find(moved, Kind::moment, "mu/decoder/layers/mlp/wi_0/kernel"), nullptr) << "it goes with its parameter";
  const std::string text = to_text(moved, {});
  EXPECT_THAT(text, HasSubstr("\nparameters with their moments"));
  EXPECT_THAT(text, Not(HasSubstr(" move: "))) << "the batch lies on the same devices in the same order";
  EXPECT_THAT(text, HasSubstr("decoder/layers/mlp/wi_0/kernel"));
  EXPECT_THAT(
      text, HasSubstr("tensors of the state move. Parameters and optimizer state on a device: 9.41 GiB -> 18.8 GiB (+9.41 GiB).\n"));
}

TEST(Diff, OnlyTotalsActivationsWhereStateMovesToo) {
  const LayoutDiff moved = diff_of(kLlama, "ici_fsdp_parallelism=4 ici_tensor_parallelism=2");
  EXPECT_THAT(to_text(moved, {}), HasSubstr(" activations move: "));
  EXPECT_THAT(to_text(moved, {}), Not(HasSubstr("\nactivations\n")));
  EXPECT_THAT(to_text(moved, {true, 0}), HasSubstr("\nactivations\n"));
  EXPECT_EQ(nlohmann::json::parse(to_json(moved))["activation_bytes_per_device"]["before"], moved.activation_bytes_before);
}

TEST(Diff, ShowsWhatAppearsAndWhatGoes) {
  const LayoutDiff moved = diff_of(kMixtral, "sparse_matmul=true");
  const Difference* gone = find(moved, Kind::activation, "decoder/layers/MoeBlock_0/dispatched");
  ASSERT_NE(gone, nullptr);
  EXPECT_TRUE(gone->before.has_value());
  EXPECT_FALSE(gone->after.has_value());
  const Difference* added = find(moved, Kind::activation, "decoder/layers/MoeBlock_0/w0_kernel");
  ASSERT_NE(added, nullptr);
  EXPECT_FALSE(added->before.has_value());
  EXPECT_THAT(to_text(moved, {}), HasSubstr("(absent)"));
}

TEST(Diff, CountsOneTensorAsOne) {
  LayoutDiff diff;
  diff.differences.push_back({Kind::activation, "decoder/x", Side{"[8]", "[fsdp]", 4}, Side{"[8]", "[-]", 8}});
  EXPECT_THAT(to_text(diff, {}), HasSubstr("\nNo state moves. Parameters"));
  EXPECT_THAT(to_text(diff, {}), HasSubstr("\n1 activation moves: "));
  diff.differences.push_back({Kind::parameter, "decoder/y", Side{"[8]", "[fsdp]", 4}, Side{"[8]", "[-]", 8}});
  EXPECT_THAT(to_text(diff, {}), HasSubstr("\n1 tensor of the state moves. Parameters"));
}

TEST(Diff, ShowsAnotherShape) {
  const LayoutDiff moved = diff_of(kLlama, "per_device_batch_size=6");
  EXPECT_NE(find(moved, Kind::activation, "decoder/layers/inputs"), nullptr);
  EXPECT_EQ(find(moved, Kind::parameter, "decoder/layers/mlp/wi_0/kernel"), nullptr);
}

// From whole tensors on eight devices to shards of an eighth, each device already has its shard. In the other
// direction each lacks seven eighths.
TEST(Diff, CountsTheBytesThatTravel) {
  const std::string whole = "model_name=llama2-7b compile_topology=v6e-8 ici_data_parallelism=8 ici_fsdp_parallelism=1";
  const std::string cut = " ici_data_parallelism=1 ici_fsdp_parallelism=8";
  const LayoutDiff there = diff_of(whole, cut);
  EXPECT_EQ(there.travel.bytes, 0);
  EXPECT_EQ(there.travel.most, 0);
  EXPECT_THAT(to_text(there, {}), HasSubstr("To go from one to the other nothing travels.\n"));
  const LayoutDiff back = diff_of(whole + cut, "ici_data_parallelism=8 ici_fsdp_parallelism=1");
  EXPECT_EQ(back.travel.bytes, 7.0 * static_cast<double>(back.state_bytes_after - back.state_bytes_before) * 8 / 7);
  EXPECT_EQ(back.travel.most, static_cast<double>(back.state_bytes_after - back.state_bytes_before));
  EXPECT_THAT(to_text(back, {}), HasSubstr(" travel, "));
  const auto json = nlohmann::json::parse(to_json(back));
  EXPECT_EQ(json["travel_bytes"].get<double>(), back.travel.bytes);
  EXPECT_EQ(json["travel_bytes_of_busiest_device"].get<double>(), back.travel.most);
  EXPECT_EQ(json["mesh"]["before"]["fsdp"], 8);
  EXPECT_EQ(json["mesh"]["after"]["data"], 8);
  EXPECT_EQ(json["differences"][0]["after"]["replicas"], 8);
}

// The kernel's rows were sharded and its columns will be, so a device has an eighth of its new shard.
TEST(Diff, CountsWhatADeviceHasOfItsNewPart) {
  const LayoutDiff moved = diff_of(kLlama, "ici_fsdp_parallelism=1 ici_tensor_parallelism=8");
  const Difference* kernel = find(moved, Kind::parameter, "decoder/layers/mlp/wi_0/kernel");
  ASSERT_NE(kernel, nullptr);
  const double parts = 3.0 * 4096 * 32 * 11008 * 4;  // kernel and both moments
  EXPECT_EQ(kernel->travel.bytes, parts * 7 / 8);
  EXPECT_EQ(kernel->travel.most, parts / 8 * 7 / 8);
}

// Whether the axis is fsdp or expert, each device has the same shard.
TEST(Diff, CallsNothingMovedThatOnlyHasAnotherName) {
  const LayoutDiff same = diff_of(kLlama, "ici_fsdp_parallelism=1 ici_expert_parallelism=8");
  EXPECT_EQ(find(same, Kind::parameter, "decoder/layers/mlp/wi_0/kernel"), nullptr);
  EXPECT_EQ(find(same, Kind::activation, "decoder/layers/inputs"), nullptr);
  for (const Difference& d : same.differences) EXPECT_THAT(d.path, HasSubstr("scale")) << "the model lays its norms on fsdp alone";
}

// Moments that are sharded over data have another layout than their parameters.
TEST(Diff, ListsMomentsThatGoTheirOwnWay) {
  const LayoutDiff moved =
      diff_of("model_name=llama2-7b compile_topology=v6e-8 ici_data_parallelism=8 ici_fsdp_parallelism=1", "shard_optimizer_over_data=true");
  EXPECT_EQ(find(moved, Kind::parameter, "decoder/layers/mlp/wi_0/kernel"), nullptr);
  EXPECT_NE(find(moved, Kind::moment, "mu/decoder/layers/mlp/wi_0/kernel"), nullptr);
}

TEST(Diff, TellsOfMachinesOfOtherSizes) {
  const LayoutDiff grown = diff_of(kLlama, "compile_topology=v6e-16");
  EXPECT_GT(grown.travel.bytes, 0) << "the eight new devices have nothing";
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
