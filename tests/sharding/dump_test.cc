// The format of the dump; its contents are compared with recorded dumps in cli/golden_test.cc.
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sharding/dump.h"
#include "tests/support.h"

namespace moesh::sharding {
namespace {

using Json = nlohmann::json;

Json dump_of(const std::string& request) { return Json::parse(to_json(test::session(request).layout)); }

Json parameter(const Json& dump, const std::string& path) {
  for (const Json& p : dump["params"]) {
    if (p["path"] == path) return p;
  }
  return nullptr;
}

TEST(Dump, HasTheKeysOfTheRecordedDumpsInTheirOrder) {
  const auto dump = nlohmann::ordered_json::parse(to_json(test::session("model_name=llama2-7b").layout));
  std::string keys;
  for (const auto& [key, value] : dump.items()) keys += key + " ";
  EXPECT_EQ(keys, "mesh input params activations optimizer totals ");
}

TEST(Dump, ListsAllAxesOfTheMeshWithTheirSizes) {
  const Json mesh = dump_of("model_name=llama2-7b custom_mesh_and_rule=ep-as-cp compile_topology=v6e-8")["mesh"];
  EXPECT_EQ(mesh, (Json{{"axes", {"data", "stage", "fsdp", "expert"}}, {"sizes", {1, 1, 8, 1}}}));
}

TEST(Dump, KeepsAxesOfSizeOneForParametersAndDropsThemElsewhere) {
  const Json dump = dump_of("model_name=llama2-7b compile_topology=v6e-8");
  const Json kernel = parameter(dump, "decoder/layers/mlp/wi_0/kernel");
  EXPECT_EQ(kernel["shape"], Json({4096, 32, 11008}));
  EXPECT_EQ(kernel["logical"], Json({"embed", "layers", "mlp"}));
  EXPECT_EQ(kernel["spec"], Json({Json({"fsdp", "context", "context_usp_ulysses", "expert"}), "stage",
                                  Json({"fsdp_transpose", "tensor", "tensor_sequence", "autoregressive"})}));
  EXPECT_EQ(dump["input"]["spec"], Json({"fsdp", nullptr}));
  EXPECT_EQ(dump["optimizer"], "same as params");
}

TEST(Dump, ListsTheMomentsThatLieElsewhereThanTheirParameters) {
  const Json dump = dump_of(
      "model_name=llama2-7b compile_topology=v6e-8 ici_data_parallelism=2 ici_fsdp_parallelism=4 "
      "shard_optimizer_over_data=true");
  ASSERT_TRUE(dump["optimizer"].is_array());
  for (const Json& entry : dump["optimizer"]) {
    const std::string path = entry["path"];
    EXPECT_TRUE(path.starts_with("mu/") || path.starts_with("nu/")) << path;
  }
}

TEST(Dump, LeavesOutTheLabelsOfAConstraintThatTheyDoNotExplain) {
  const std::string capacity =
      "model_name=mixtral-8x7b compile_topology=v6e-8 ici_expert_parallelism=4 sparse_matmul=false "
      "capacity_factor=1.25 ";
  const auto dispatched = [&](const std::string& more) {
    const Json dump = dump_of(capacity + more);
    for (const Json& a : dump["activations"]) {
      if (a["where"] == "decoder/layers/MoeBlock_0/dispatched") return a;
    }
    return Json();
  };
  EXPECT_EQ(dispatched("")["logical"],
            Json({"activation_exp", "activation_batch_moe", nullptr, "activation_embed_moe"}));
  EXPECT_TRUE(dispatched("moe_dispatch_no_expert_sharding=true")["logical"].is_null());
}

TEST(Dump, WritesExtraMembersFirst) {
  const auto dump =
      nlohmann::ordered_json::parse(to_json(test::session("model_name=llama2-7b").layout, {{"source", "\"here\""}}));
  EXPECT_EQ(dump.begin().key(), "source");
  EXPECT_EQ(dump["source"], "here");
}

TEST(Dump, HasBytesReplicasAndTotals) {
  const session::Session session = test::session("model_name=llama2-7b compile_topology=v6e-8 ici_data_parallelism=2 ici_fsdp_parallelism=4");
  const auto dump = nlohmann::json::parse(to_json(session.layout));
  std::int64_t parameters = 0, activations = 0;
  for (const auto& p : dump["params"]) {
    parameters += p["bytes_per_device"].get<std::int64_t>();
    EXPECT_EQ(p["bytes"].get<std::int64_t>() * p["replicas"].get<std::int64_t>(), p["bytes_per_device"].get<std::int64_t>() * 8) << p;
  }
  for (const auto& a : dump["activations"]) activations += a["bytes_per_device"].get<std::int64_t>();
  EXPECT_EQ(dump["totals"]["parameter_bytes_per_device"], parameters);
  EXPECT_EQ(dump["totals"]["activation_bytes_per_device"], activations);
  EXPECT_EQ(dump["totals"]["optimizer_bytes_per_device"], 2 * parameters);
  EXPECT_EQ(dump["totals"]["devices"], 8);
}

}  // namespace
}  // namespace moesh::sharding
