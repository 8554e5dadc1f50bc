// Each check of the lint: a case in which it fires, with its fix, and one in which it does not.
#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sharding/lint.h"
#include "tests/support.h"

namespace moesh::sharding {
namespace {

using test::rule;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<Finding> only(std::vector<Finding> findings, const std::string& check) {
  std::erase_if(findings, [&](const Finding& f) { return f.check != check; });
  return findings;
}

std::vector<Finding> found(const std::string& request, const std::string& check) {
  const session::Session session = session::open(test::words_of(request), session::Evenness::reported);
  return only(lint(session.layout, {session.batch.micro_rows}), check);
}

// A layout by hand: parameters and activations as (path, labels, shape), laid by the rules.
struct Given {
  std::string path;
  Labels labels;
  Shape shape;
};

LaidTensor laid(const Given& given, const Layout& layout) {
  LaidTensor tensor;
  tensor.path = given.path;
  tensor.shape = given.shape;
  tensor.constraint.labels = given.labels;
  tensor.spec = resolve_spec(given.labels, layout.rules, layout.mesh);
  return tensor;
}

Layout made(const mesh::Mesh& mesh, const std::vector<config::AxisRule>& rules, const std::vector<Given>& parameters,
            const std::vector<Given>& activations) {
  Layout layout{mesh, "", rules, false, {}, {}, {}, {}, {}};
  layout.input = laid({"inputs", {"batch", ""}, {8, 8}}, layout);
  for (const Given& given : parameters) layout.parameters.push_back(laid(given, layout));
  for (const Given& given : activations) layout.activations.push_back(laid(given, layout));
  return layout;
}

const std::string kCapacity =
    "model_name=mixtral-8x7b sparse_matmul=false capacity_factor=1.25 per_device_batch_size=11 "
    "compile_topology=mi355x-8 ";
const std::string kAllExpert = "ici_expert_parallelism=-1 ici_fsdp_parallelism=1 ";
const std::string kMixed = "ici_expert_parallelism=4 ici_fsdp_parallelism=2 ";

TEST(LintCompetingDims, FlagsTheCapacityPathWithTheFlagAsTheFix) {
  for (const std::string& mesh : {kAllExpert, kMixed}) {
    const std::vector<Finding> findings = found(kCapacity + mesh, "competing-dims");
    ASSERT_THAT(findings, SizeIs(1)) << mesh;
    EXPECT_EQ(findings[0].severity, Severity::warning);
    EXPECT_EQ(findings[0].fix, "moe_dispatch_no_expert_sharding=true");
    EXPECT_THAT(findings[0].what,
                HasSubstr("dims activation_batch_moe and activation_exp of one value both claim axis expert; "
                          "activation_batch_moe wins"));
    EXPECT_THAT(findings[0].where, HasSubstr("decoder/layers/MoeBlock_0/dispatched"));
    EXPECT_THAT(findings[0].cost, HasSubstr("expert parallelism becomes a gather of every expert's weights"));
  }
}

TEST(LintCompetingDims, IsSatisfiedByTheFlag) {
  for (const std::string& mesh : {kAllExpert, kMixed}) {
    EXPECT_THAT(found(kCapacity + mesh + "moe_dispatch_no_expert_sharding=true", "competing-dims"), IsEmpty()) << mesh;
  }
}

TEST(LintCompetingDims, SaysNothingWhereTheExpertAxisIsOne) {
  EXPECT_THAT(found(kCapacity + "ici_fsdp_parallelism=8", "competing-dims"), IsEmpty());
}

TEST(LintCompetingDims, SaysNothingOfTheSparsePaths) {
  EXPECT_THAT(found("model_name=mixtral-8x7b compile_topology=v6e-8 ici_expert_parallelism=4", "competing-dims"),
              IsEmpty());
}

TEST(LintCompetingDims, ProposesAnotherOrderForOtherLabels) {
  const std::vector<config::AxisRule> rules{rule("batch", {"x"}, "r.yml:1"), rule("activation_wide", {"x"}, "r.yml:2"),
                                            rule("wide", {"x"}, "r.yml:3")};
  const Layout layout = made(test::mesh_of({{"x", 2}}), rules, {{"w", {"", "wide"}, {8, 8}}},
                             {{"h", {"batch", "activation_wide"}, {8, 8}}});
  const std::vector<Finding> findings = only(lint(layout, {8}), "competing-dims");
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].fix, "move the rule of activation_wide before that of batch, or drop x from it");
  EXPECT_THAT(findings[0].what, HasSubstr("(r.yml:1 stands before r.yml:2)"));
}

TEST(LintIdleRule, FlagsARuleOfTheUsersForALabelThatNobodyBears) {
  const std::vector<Finding> findings = found("model_name=llama2-7b logical_axis_rules=[[mpl,[tensor]]]", "idle-rule");
  ASSERT_GE(findings.size(), 1u);
  EXPECT_EQ(findings[0].severity, Severity::warning);
  EXPECT_EQ(findings[0].what, "rule mpl -> [tensor] never applies");
  EXPECT_EQ(findings[0].where, "the command line");
  EXPECT_EQ(findings[0].cost, "no tensor of this model bears the label");
  EXPECT_EQ(findings[0].fix, "correct the label, or remove the rule");
}

TEST(LintIdleRule, FlagsARuleThatAnEarlierOneAlwaysBeats) {
  const std::vector<Finding> findings =
      found("model_name=llama2-7b logical_axis_rules=[[mlp,[tensor]],[mlp,[fsdp]]]", "idle-rule");
  ASSERT_GE(findings.size(), 1u);
  EXPECT_EQ(findings[0].what, "rule mlp -> [fsdp] never applies");
  EXPECT_EQ(findings[0].cost, "an earlier rule settles every dim that bears the label");
}

TEST(LintIdleRule, OnlyRemarksOnRulesThatComeWithMoesh) {
  const std::vector<Finding> findings = found("model_name=llama2-7b", "idle-rule");
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].severity, Severity::info);
}

TEST(LintIdleRule, SaysNothingWhenEveryRuleActs) {
  const Layout layout = made(test::mesh_of({{"x", 2}}), {rule("batch", {"x"}), rule("a", {"x"})}, {{"w", {"a"}, {8}}},
                             {{"h", {"batch"}, {8}}});
  EXPECT_THAT(only(lint(layout, {8}), "idle-rule"), IsEmpty());
}

TEST(LintAbsentAxis, NamesAxesOfARuleThatTheMeshLacks) {
  const Layout layout = made(test::mesh_of({{"fsdp", 2}}),
                             {rule("a", {"fsdp", "tensor"}, "mine.yml:4"), rule("b", {"tensor"}, "mine.yml:5")},
                             {{"p", {"a", "b"}, {8, 8}}}, {});
  const std::vector<Finding> findings = only(lint(layout, {8}), "absent-axis");
  ASSERT_THAT(findings, SizeIs(2));
  EXPECT_EQ(findings[0].severity, Severity::warning);
  EXPECT_EQ(findings[0].what, "rule a -> [fsdp, tensor] names tensor, which the mesh lacks");
  EXPECT_EQ(findings[0].where, "mine.yml:4");
  EXPECT_EQ(findings[0].cost, "only its other axes shard the dim");
  EXPECT_EQ(findings[0].fix, "add tensor to mesh_axes, or take it out of the rule");
  EXPECT_EQ(findings[1].cost, "dims that bear the label are whole on every device");
}

TEST(LintAbsentAxis, OnlyRemarksOnRulesThatComeWithMoesh) {
  const std::vector<Finding> findings =
      found("model_name=llama2-7b custom_mesh_and_rule=ep-as-dp compile_topology=v6e-8", "absent-axis");
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].severity, Severity::info);
  EXPECT_EQ(findings[0].what, "rules of the rule set name context, tensor, tensor_transpose, which its mesh lacks");
}

TEST(LintAbsentAxis, SaysNothingWhenTheMeshHasThemAll) {
  EXPECT_THAT(found("model_name=llama2-7b compile_topology=v6e-8", "absent-axis"), IsEmpty());
}

TEST(LintStages, SaysThatTheyAreNotRun) {
  const std::vector<Finding> findings =
      found("model_name=llama2-7b compile_topology=v6e-8 ici_pipeline_parallelism=2", "stages-not-run");
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].severity, Severity::warning);
  EXPECT_EQ(findings[0].what, "axis stage=2 makes pipeline stages, which are laid out, but not run yet");
  EXPECT_EQ(findings[0].fix,
            "ici_pipeline_parallelism=1 dcn_pipeline_parallelism=1, and another axis for these devices");
  EXPECT_THAT(found("model_name=llama2-7b compile_topology=v6e-8", "stages-not-run"), IsEmpty());
}

TEST(LintUnruledLabel, NamesLabelsWithoutARule) {
  const Layout layout = made(test::mesh_of({{"x", 2}}), {rule("batch", {"x"})}, {{"w", {"a", "b"}, {8, 8}}}, {});
  const std::vector<Finding> findings = only(lint(layout, {8}), "unruled-label");
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].severity, Severity::info);
  EXPECT_EQ(findings[0].what, "no rule names the labels a, b");
  EXPECT_EQ(findings[0].where, "e.g. w");
  EXPECT_EQ(findings[0].fix, "- [a, [AXIS]] in the rule set, if that was not meant");
}

TEST(LintUnruledLabel, SaysNothingWhenAllHaveOne) {
  const Layout layout =
      made(test::mesh_of({{"x", 2}}), {rule("batch", {"x"}), rule("a", {})}, {{"w", {"a", ""}, {8, 8}}}, {});
  EXPECT_THAT(only(lint(layout, {8}), "unruled-label"), IsEmpty());
}

TEST(LintAxes, FlagsAnAxisThatShardsNothing) {
  const std::vector<Finding> findings = found(
      "model_name=llama2-7b compile_topology=v6e-8 ici_expert_parallelism=2 override_logical_axis_rules=true "
      "logical_axis_rules=[[embed,[fsdp]],[activation_batch,[fsdp]]]",
      "unused-axis");
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].what, "axis expert shards nothing");
  EXPECT_EQ(findings[0].where, "mesh axis expert=2");
  EXPECT_EQ(findings[0].cost, "2 devices hold and compute the same");
  EXPECT_EQ(findings[0].fix, "ici_expert_parallelism=1, or a rule that uses it");
}

TEST(LintAxes, FlagsAnAxisThatShardsWeightsOnly) {
  const Layout layout = made(test::mesh_of({{"x", 2}}), {rule("a", {"x"})}, {{"w", {"a"}, {8}}}, {{"h", {""}, {8}}});
  const std::vector<Finding> findings = only(lint(layout, {8}), "weights-only-axis");
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].what, "axis x shards weights but no activation");
}

TEST(LintAxes, RemarksOnAnAxisThatReplicatesAllParameters) {
  const std::vector<Finding> findings = found(
      "model_name=llama2-7b compile_topology=v6e-8 ici_data_parallelism=2 ici_fsdp_parallelism=4", "replicating-axis");
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].severity, Severity::info);
  EXPECT_EQ(findings[0].what, "axis data replicates all parameters (plain data parallelism)");
  EXPECT_EQ(findings[0].fix, "shard_optimizer_over_data=true, or use fsdp instead");
}

TEST(LintAxes, SaysNothingOfAxesThatShardBoth) {
  for (const char* check : {"unused-axis", "weights-only-axis", "replicating-axis"}) {
    EXPECT_THAT(
        found("model_name=llama2-7b compile_topology=v6e-8 ici_tensor_parallelism=2 ici_fsdp_parallelism=4", check),
        IsEmpty());
  }
}

TEST(LintReplicated, FlagsALargeTensorThatIsWholeEverywhere) {
  const std::vector<Finding> findings =
      found("model_name=llama2-7b compile_topology=v6e-8 logical_axis_rules=[[embed_vocab,[]]]", "replicated");
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].what, "large tensors are whole on all 8 devices");
  EXPECT_EQ(findings[0].where, "decoder/logits_dense/kernel, token_embedder/embedding");
  EXPECT_EQ(findings[0].fix, "a rule for one of the labels embed_vocab, vocab");
}

TEST(LintReplicated, SaysNothingOfSmallTensorsNorOfPlainDataParallelism) {
  EXPECT_THAT(found("model_name=mixtral-8x7b compile_topology=v6e-8", "replicated"), IsEmpty());
  EXPECT_THAT(
      found("model_name=llama2-7b compile_topology=v6e-8 ici_data_parallelism=8 ici_fsdp_parallelism=1", "replicated"),
      IsEmpty());
}

TEST(LintBlockedByOne, FlagsARuleThatLostToAnAxisOfSizeOne) {
  const std::vector<config::AxisRule> rules{rule("a", {"one"}), rule("b", {"x", "one"}, "r.yml:2")};
  const Layout layout = made(test::mesh_of({{"x", 2}, {"one", 1}}), rules, {{"w", {"a", "b"}, {8, 8}}}, {});
  const std::vector<Finding> findings = only(lint(layout, {8}), "blocked-by-one");
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].what, "the rule for b was passed over for axis one, which has size 1");
  EXPECT_EQ(findings[0].where, "w (rule at r.yml:2)");
  EXPECT_EQ(findings[0].fix, "add a second rule for b without one");
}

TEST(LintBlockedByOne, SaysNothingWhenAFallbackMadeUpForIt) {
  const std::vector<config::AxisRule> rules{rule("a", {"one"}), rule("b", {"x", "one"}), rule("b", {"x"})};
  const Layout layout = made(test::mesh_of({{"x", 2}, {"one", 1}}), rules, {{"w", {"a", "b"}, {8, 8}}}, {});
  EXPECT_THAT(only(lint(layout, {8}), "blocked-by-one"), IsEmpty());
}

TEST(LintUneven, IsAnErrorForParametersAndAWarningForActivations) {
  const std::vector<config::AxisRule> rules{rule("a", {"x"})};
  const Layout layout = made(test::mesh_of({{"x", 4}}), rules, {{"w", {"a"}, {6}}}, {{"h", {"a"}, {9}}});
  const std::vector<Finding> findings = only(lint(layout, {8}), "uneven");
  ASSERT_THAT(findings, SizeIs(2));
  EXPECT_EQ(findings[0].severity, Severity::error);
  EXPECT_EQ(findings[0].what, "dim 0 (a) of size 6 does not divide over 4 shards");
  EXPECT_EQ(findings[0].cost, "it cannot be laid out so");
  EXPECT_EQ(findings[1].severity, Severity::warning);
  EXPECT_EQ(findings[1].cost, "blocks of 3: 3 of 4 shards hold anything");
  EXPECT_TRUE(has_errors(findings));
}

TEST(LintUneven, SaysNothingWhenSizesDivide) {
  EXPECT_THAT(found("model_name=llama2-7b compile_topology=v6e-8", "uneven"), IsEmpty());
}

TEST(LintSmallBatch, IsAnErrorWhenTheBatchDoesNotDivide) {
  const std::vector<Finding> findings = found("compile_topology=v6e-8 per_device_batch_size=1.5", "small-batch");
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].severity, Severity::error);
  EXPECT_EQ(findings[0].what, "a batch of 12 rows does not divide over 8 shards");
  EXPECT_EQ(findings[0].fix, "per_device_batch_size=1");
}

TEST(LintSmallBatch, WarnsOfAPassSmallerThanItsShards) {
  const std::vector<Finding> findings =
      found("model_name=llama2-7b compile_topology=v6e-8 per_device_batch_size=0.5", "small-batch");
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].severity, Severity::warning);
  EXPECT_EQ(findings[0].what, "a pass of 4 rows is smaller than the 8 shards of its batch");
  EXPECT_EQ(findings[0].cost, "4 of 8 shards have nothing to do");
}

TEST(LintSmallBatch, SaysNothingWhenTheLengthIsShardedInstead) {
  EXPECT_THAT(
      found("model_name=mixtral-8x7b compile_topology=v6e-8 per_device_batch_size=0.5 custom_mesh_and_rule=ep-as-cp "
            "ici_expert_parallelism=2",
            "small-batch"),
      IsEmpty());
}

TEST(Lint, PutsErrorsFirst) {
  const session::Session session =
      session::open(test::words_of("compile_topology=v6e-8 ici_fsdp_parallelism=1 ici_tensor_parallelism=8 "
                                       "base_num_query_heads=4 base_num_kv_heads=4 "
                                       "logical_axis_rules=[[mpl,[tensor]]]"),
                        session::Evenness::reported);
  const std::vector<Finding> findings = lint(session.layout, {session.batch.micro_rows});
  ASSERT_TRUE(has_errors(findings));
  EXPECT_TRUE(std::is_sorted(findings.begin(), findings.end(),
                             [](const Finding& a, const Finding& b) { return a.severity < b.severity; }));
}

TEST(Lint, PrintsWhatWhereCostAndFix) {
  const std::vector<Finding> findings{
      {Severity::warning, "a-check", "what it is", "where it is", "what it costs", "what to do"},
      {Severity::info, "another", "w", "x", "y", ""}};
  EXPECT_EQ(to_text(findings),
            "warning: what it is [a-check]\n  where: where it is\n  cost:  what it costs\n  fix:   what to do\n"
            "info: w [another]\n  where: x\n  cost:  y\n"
            "0 errors, 1 warning, 1 remark.\n");
  EXPECT_EQ(to_text({}), "nothing odd.\n");
  EXPECT_FALSE(has_errors(findings));
  EXPECT_EQ(name_of(Severity::error), "error");
}

TEST(Lint, IsAlsoJson) {
  const std::vector<Finding> findings{{Severity::warning, "a-check", "what \"it\" is", "where", "cost", "fix"}};
  const auto json = nlohmann::json::parse(to_json(findings));
  ASSERT_EQ(json["findings"].size(), 1u);
  EXPECT_EQ(json["findings"][0]["severity"], "warning");
  EXPECT_EQ(json["findings"][0]["check"], "a-check");
  EXPECT_EQ(json["findings"][0]["what"], "what \"it\" is");
  EXPECT_TRUE(nlohmann::json::parse(to_json({}))["findings"].empty());
}

}  // namespace
}  // namespace moesh::sharding
