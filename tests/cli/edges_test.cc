// Sets every numeric key to the ends of its range and beyond: either the value is refused, or every number that comes out is finite.
#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "config/schema.h"
#include "tests/cli/outcome.h"

namespace moesh::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kTiny =
    "base_num_decoder_layers=2 base_emb_dim=16 base_num_query_heads=2 base_num_kv_heads=2 head_dim=8 vocab_size=32 "
    "max_target_length=8 per_device_batch_size=2 compile_topology=cpu-1 dataset_type=synthetic dtype=float32 log_config=false "
    "enable_checkpointing=false override_model_config=true ";

struct FamilyAtItsEdge {
  std::string name, request;
};

const std::vector<FamilyAtItsEdge>& families() {
  static const std::vector<FamilyAtItsEdge> all{
      {"llama2", "decoder_block=llama2 base_mlp_dim=32 "},
      {"mixtral", "decoder_block=mixtral num_experts=4 num_experts_per_tok=2 base_mlp_dim=16 base_moe_mlp_dim=16 "},
      {"deepseek",
       "model_name=deepseek3-test num_experts=4 num_experts_per_tok=2 base_mlp_dim=32 base_moe_mlp_dim=16 first_num_dense_layers=1 "
       "q_lora_rank=8 kv_lora_rank=8 qk_nope_head_dim=8 qk_rope_head_dim=4 v_head_dim=8 n_routing_groups=2 topk_routing_group=1 "},
  };
  return all;
}

std::vector<const config::Key*> numbers() {
  std::vector<const config::Key*> keys;
  for (const config::Topic& topic : config::topics()) {
    for (const config::Key& key : topic.keys) {
      const bool number = key.kind == config::Kind::integer || key.kind == config::Kind::real;
      if (number && key.status == config::Status::used) keys.push_back(&key);
    }
  }
  return keys;
}

std::string low_end(const config::Key& key) { return std::string(key.range.substr(0, key.range.find(".."))); }

std::string high_end(const config::Key& key) {
  const std::string high(key.range.substr(key.range.find("..") + 2));
  return high.starts_with('<') ? high.substr(1) : high;
}

// Runs two steps; every number that they write must be finite.
void expect_numbers(const std::string& request, bool may_overflow) {
  const test::TemporaryFolder folder;
  const std::string metrics = folder.path() + "/m.jsonl";
  const Outcome done = outcome("train " + request + " metrics_file=" + metrics);
  if (done.code == 2) {
    EXPECT_THAT(done.err, HasSubstr("moesh: error: "));
    return;
  }
  if (may_overflow && done.code == 1) {
    EXPECT_THAT(done.err, HasSubstr("the first value that is not finite is"));
    return;
  }
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, Not(HasSubstr("nan")));
  if (!may_overflow) {
    EXPECT_THAT(done.out, Not(HasSubstr("inf")));
    EXPECT_THAT(test::read_text(metrics), Not(HasSubstr(": null")));
  }
}

void expect_numbers_at_edges(const config::Key& key, const std::string& request) {
  const std::string name(key.name);
  for (const std::string& value : {low_end(key), std::string("0"), std::string("1"), std::string("-1")}) {
    SCOPED_TRACE(request + name + "=" + value);
    expect_numbers(request + name + "=" + value, false);
  }
  // Large sizes would take long to run, so they are only planned.
  for (const std::string& value : {high_end(key), std::string(key.kind == config::Kind::real ? "1e300" : "9000000000000000")}) {
    SCOPED_TRACE(request + name + "=" + value);
    if (key.kind == config::Kind::real && key.name != "per_device_batch_size") {
      expect_numbers(request + name + "=" + value, true);
    } else {
      const int code = outcome("shardings " + request + name + "=" + value).code;
      EXPECT_TRUE(code == 0 || code == 2) << code;
    }
  }
}

TEST(EdgesSlow, OfEveryNumberAreRefusedOrWork) {
  for (const FamilyAtItsEdge& family : families()) {
    for (const config::Key* key : numbers()) expect_numbers_at_edges(*key, kTiny + family.request + (key->name == "steps" ? "" : "steps=2 "));
  }
}

TEST(EdgesSlow, OfEveryOptimizersNumbersAreRefusedOrWork) {
  for (const std::string optimizer : {"adamw", "adam_pax", "sgd", "muon"}) {
    for (const config::Key* key : numbers()) {
      if (!key->name.starts_with("adam_") && !key->name.starts_with("muon_") && key->name != "learning_rate") continue;
      expect_numbers_at_edges(*key, kTiny + families().front().request + "steps=2 opt_type=" + optimizer + " ");
    }
  }
}

TEST(Edges, AreNamedWhereTheyAreCrossed) {
  EXPECT_EQ(outcome("shardings adam_b1=1").err,
            "moesh: error: the command line: adam_b1 is '1', a number from 0 to below 1 was expected\n");
  EXPECT_EQ(outcome("shardings adam_eps=0").err,
            "moesh: error: the command line: adam_eps and adam_eps_root are both 0: a parameter without a gradient would become 0 / 0\n"
            "  fix: adam_eps=1e-8\n");
  EXPECT_EQ(outcome("shardings adam_eps=0 adam_eps_root=1e-9").code, 0);
  EXPECT_EQ(outcome("shardings rope_type=yarn rope_max_timescale=1").err,
            "moesh: error: the command line: rope_type=yarn measures wavelengths by the logarithm of rope_max_timescale, which is 1\n"
            "  fix: rope_max_timescale=10000\n");
}

TEST(Edges, OfStepsAreSaidAsTheyAre) {
  const test::TemporaryFolder folder;
  const std::string request = "train " + kTiny + families().front().request + "metrics_file=" + folder.path() + "/m.jsonl steps=";
  const Outcome none = outcome(request + "0");
  EXPECT_EQ(none.code, 0);
  EXPECT_THAT(none.out, HasSubstr("\nno step was made, as steps=0 asks.\nMetrics: "));
  EXPECT_THAT(none.out, Not(HasSubstr("nan")));
  EXPECT_THAT(outcome(request + "1").out, ::testing::ContainsRegex("\n1 step in [0-9.]+ m?s, "));
  EXPECT_THAT(outcome(request + "1 per_device_batch_size=1 max_target_length=1").out, HasSubstr("; 1 row of 1 token a step, 1 a device, from "));
}

}  // namespace
}  // namespace moesh::cli
