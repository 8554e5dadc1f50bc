// Properties of laid-out tensors: bytes, replicas, components, sharding of moments over data, and dims that do not divide.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sharding/layout.h"
#include "tests/support.h"

namespace moesh::sharding {
namespace {

using test::mesh_of;
using test::message_of;
using test::rule;

const mesh::Mesh& mesh_of_layouts() {
  static const mesh::Mesh mesh = mesh_of({{"data", 2}, {"fsdp", 4}, {"one", 1}, {"tensor", 2}});
  return mesh;
}

LaidTensor tensor(const Shape& shape, const std::vector<AxisList>& dims, DType dtype = DType::float32) {
  LaidTensor made;
  made.path = "decoder/w";
  made.shape = shape;
  made.dtype = dtype;
  made.constraint.labels = Labels(shape.size());
  made.spec = {dims, {}};
  return made;
}

TEST(Layout, CountsTheBytesOfTheLargestShard) {
  EXPECT_EQ(bytes_per_device(tensor({8, 6}, {{1}, {}}), mesh_of_layouts()), 2 * 6 * 4);
  EXPECT_EQ(bytes_per_device(tensor({9, 6}, {{1}, {3}}, DType::bfloat16), mesh_of_layouts()), 3 * 3 * 2);
  EXPECT_EQ(bytes_per_device(tensor({}, {}), mesh_of_layouts()), 4);
}

TEST(Layout, CountsOnHowManyDevicesAShardStands) {
  EXPECT_EQ(replicas(tensor({8}, {{}}), mesh_of_layouts()), 16);
  EXPECT_EQ(replicas(tensor({8}, {{1, 2}}), mesh_of_layouts()), 4);
}

std::string zero1(const Shape& shape, const std::vector<AxisList>& dims) {
  return to_string(over_data(shape, {dims, {}}, mesh_of_layouts()), mesh_of_layouts());
}

TEST(OverData, GoesBeforeTheFirstDimWhoseShardItDivides) {
  EXPECT_EQ(zero1({8, 8}, {{1}, {}}), "[(data, fsdp), -]");
  EXPECT_EQ(zero1({4, 8}, {{1}, {}}), "[fsdp, data]") << "a shard of 1 is not divided";
  EXPECT_EQ(zero1({3, 6}, {{}, {}}), "[-, data]");
}

TEST(OverData, LeavesADimOfTensorAlone) {
  EXPECT_EQ(zero1({8, 8}, {{3}, {}}), "[tensor, data]");
  EXPECT_EQ(zero1({8}, {{3}}), "[tensor]");
}

TEST(OverData, LeavesATensorThatLiesOnDataAlready) { EXPECT_EQ(zero1({8, 8}, {{}, {0}}), "[-, data]"); }

TEST(OverData, LeavesATensorThatItDoesNotDivide) { EXPECT_EQ(zero1({3, 5}, {{}, {}}), "[-, -]"); }

TEST(OverData, DoesNothingWithoutADataAxis) {
  const mesh::Mesh mesh = mesh_of({{"fsdp", 8}});
  EXPECT_EQ(over_data({8}, {{{}}, {}}, mesh), (Spec{{{}}, {}}));
}

Layout layout_with(std::vector<config::AxisRule> rules, const std::string& rule_set) {
  return {mesh_of_layouts(), rule_set, std::move(rules), false, {}, {}, {}, {}, {}};
}

TEST(CheckEven, NamesTensorDimSizesAndRule) {
  LaidTensor odd = tensor({8, 10}, {{}, {1, 2, 3}});
  odd.constraint.labels = {"", "mlp"};
  const std::vector<config::AxisRule> rules{rule("other", {"fsdp"}, "mine.yml:2"),
                                            rule("mlp", {"fsdp", "one", "tensor"}, "mine.yml:7")};
  EXPECT_EQ(message_of([&] { check_even(odd, layout_with(rules, "")); }),
            "decoder/w: dim 1 ('mlp', size 10) does not divide over fsdp=4 x tensor=2 = 8 shards (rule at mine.yml:7)\n"
            "  fix: choose axis sizes that divide it (ici_fsdp_parallelism, ici_tensor_parallelism), or a rule that lays the dim elsewhere "
            "(logical_axis_rules=[[mlp,[]]]: whole); `moesh lint` tries what would");
}

// Rules of the command line give way to a rule set, so they are no way out of one.
TEST(CheckEven, OffersNoRulesBesideARuleSet) {
  LaidTensor odd = tensor({8, 10}, {{}, {1, 2, 3}});
  odd.constraint.labels = {"", "mlp"};
  const std::string message = message_of([&] { check_even(odd, layout_with({rule("mlp", {"fsdp", "one", "tensor"}, "mine.yml:7")}, "ep-tp")); });
  EXPECT_THAT(message, ::testing::EndsWith("or another rule set, as logical_axis_rules give way to custom_mesh_and_rule; `moesh lint` tries what would"));
}

TEST(CheckEven, AcceptsWhatDivides) {
  EXPECT_EQ(message_of([] { check_even(tensor({8, 4}, {{1}, {3}}), layout_with({}, "")); }), "no error");
}

// Rows follow from a key of their own.
TEST(CheckEven, NamesTheBatchWhereRowsDoNotDivide) {
  for (const char* label : {"activation_batch", "activation_embed_and_logits_batch", "cache_batch", "decode_batch"}) {
    LaidTensor odd = tensor({10, 8}, {{1, 2, 3}, {}});
    odd.constraint.labels = {label, ""};
    EXPECT_THAT(message_of([&] { check_even(odd, layout_with({rule(label, {"fsdp", "one", "tensor"}, "mine.yml:7")}, "")); }),
                ::testing::HasSubstr("\n  fix: choose another batch (per_device_batch_size; for texts --batch), axis sizes that divide it (")) << label;
  }
}

// The place of the first default rule for a label.
std::string rule_at(const std::string& label) {
  const config::Settings settings = config::load({}).settings;
  for (const config::AxisRule& r : settings.rules("logical_axis_rules")) {
    if (r.label == label) return r.where;
  }
  return "nowhere";
}

TEST(CheckEven, RefusesAParameterOfAModelAndLeavesActivationsUneven) {
  const std::string heads =
      "compile_topology=v6e-8 ici_fsdp_parallelism=1 ici_tensor_parallelism=8 base_num_query_heads=4 "
      "base_num_kv_heads=4";
  EXPECT_EQ(message_of([&] { test::session(heads); }),
            "decoder/layers/self_attention/query/kernel: dim 2 ('q_heads', size 4) does not divide over tensor=8 = 8 shards "
            "(rule at " +
                rule_at("q_heads") +
                ")\n"
                "  fix: choose axis sizes that divide it (ici_tensor_parallelism), or a rule that lays the dim elsewhere "
                "(logical_axis_rules=[[q_heads,[]]]: whole); `moesh lint` tries what would");
  const session::Session rows = test::session(
      "compile_topology=v6e-8 ici_context_parallelism=8 ici_fsdp_parallelism=1 "
      "max_target_length=2048 logical_axis_rules=[[activation_length,[context]]]");
  EXPECT_FALSE(rows.layout.activations.empty());
}

TEST(CheckEven, RefusesAnInputThatDoesNotDivide) {
  EXPECT_EQ(
      message_of([] { test::session("compile_topology=v6e-8 max_target_length=2047 ici_context_parallelism=8 ici_fsdp_parallelism=1"); }),
      "inputs: dim 1 ('activation_norm_length', size 2047) does not divide over context=8 = 8 shards (rule at " +
          rule_at("activation_norm_length") +
          ")\n  fix: choose axis sizes that divide it (ici_context_parallelism), or a rule that lays the dim elsewhere "
          "(logical_axis_rules=[[activation_norm_length,[]]]: whole); `moesh lint` tries what would");
}

}  // namespace
}  // namespace moesh::sharding
