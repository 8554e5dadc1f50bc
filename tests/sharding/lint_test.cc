// For each check of the lint a case in which it fires, with its fix, and a case in which it does not.
#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sharding/lint.h"
#include "sharding/lint_checks.h"
#include "tests/paths.h"
#include "tests/support.h"

namespace moesh::sharding {
namespace {

using test::rule;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<Finding> only(std::vector<Finding> findings, Check check) {
  std::erase_if(findings, [&](const Finding& f) { return f.check != check; });
  return findings;
}

std::vector<Finding> found(const std::string& request, Check check) {
  const session::Session session = session::open(test::words_of(request), session::Evenness::reported);
  return only(lint(session.layout, {session.batch.micro_rows}), check);
}

// The layout of a test: parameters and activations as path, labels and shape, to which the rules are applied.
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
    const std::vector<Finding> findings = found(kCapacity + mesh, Check::competing_dims);
    ASSERT_THAT(findings, SizeIs(1)) << mesh;
    EXPECT_EQ(findings[0].severity, Severity::warning);
    EXPECT_EQ(findings[0].tries.front(), Keys{"moe_dispatch_no_expert_sharding=true"});
    EXPECT_EQ(findings[0].gain, Gain::speed);
    EXPECT_THAT(findings[0].what,
                HasSubstr("dims activation_batch_moe and activation_exp of one value both claim axis expert; "
                          "activation_batch_moe wins"));
    EXPECT_THAT(findings[0].where, HasSubstr("decoder/layers/MoeBlock_0/dispatched"));
    EXPECT_THAT(findings[0].cost, HasSubstr("expert parallelism becomes a gather of every expert's weights"));
  }
}

TEST(LintCompetingDims, IsSatisfiedByTheFlag) {
  for (const std::string& mesh : {kAllExpert, kMixed}) {
    EXPECT_THAT(found(kCapacity + mesh + "moe_dispatch_no_expert_sharding=true", Check::competing_dims), IsEmpty()) << mesh;
  }
}

TEST(LintCompetingDims, SaysNothingWhereTheExpertAxisIsOne) {
  EXPECT_THAT(found(kCapacity + "ici_fsdp_parallelism=8", Check::competing_dims), IsEmpty());
}

TEST(LintCompetingDims, SaysNothingOfTheSparsePaths) {
  EXPECT_THAT(found("model_name=mixtral-8x7b compile_topology=v6e-8 ici_expert_parallelism=4", Check::competing_dims),
              IsEmpty());
}

TEST(LintCompetingDims, ProposesAnotherOrderForOtherLabels) {
  const std::vector<config::AxisRule> rules{rule("batch", {"x"}, "r.yml:1"), rule("activation_wide", {"x"}, "r.yml:2"),
                                            rule("wide", {"x"}, "r.yml:3")};
  const Layout layout = made(test::mesh_of({{"x", 2}}), rules, {{"w", {"", "wide"}, {8, 8}}},
                             {{"h", {"batch", "activation_wide"}, {8, 8}}});
  const std::vector<Finding> findings = only(lint(layout, {8}), Check::competing_dims);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].fix, "move the rule of activation_wide before that of batch, or drop x from it");
  EXPECT_THAT(findings[0].what, HasSubstr("(r.yml:1 stands before r.yml:2)"));
}

TEST(LintIdleRule, FlagsARuleOfTheUsersForALabelThatNobodyBears) {
  const std::vector<Finding> findings = found("model_name=llama2-7b logical_axis_rules=[[mpl,[tensor]]]", Check::idle_rule);
  ASSERT_GE(findings.size(), 1u);
  EXPECT_EQ(findings[0].severity, Severity::warning);
  EXPECT_EQ(findings[0].what, "rule mpl -> [tensor] never applies");
  EXPECT_EQ(findings[0].where, "the command line");
  EXPECT_EQ(findings[0].cost, "no tensor of this model bears the label");
  EXPECT_EQ(findings[0].fix, "the label mlp, if it was meant");
}

// A label is suggested even if this model does not have it, here because it sends rows to its experts.
TEST(LintIdleRule, GuessesTheLabelThatWasMeant) {
  const std::vector<Finding> findings =
      found("model_name=mixtral-8x7b compile_topology=v5p-64 logical_axis_rules=[[activation_exps,[expert]]]", Check::idle_rule);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].fix, "the label activation_exp, if it was meant");
}

TEST(LintIdleRule, FlagsARuleThatAnEarlierOneAlwaysBeats) {
  const std::vector<Finding> findings =
      found("model_name=llama2-7b logical_axis_rules=[[mlp,[tensor]],[mlp,[fsdp]]]", Check::idle_rule);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].what, "rule mlp -> [fsdp] never applies");
  EXPECT_EQ(findings[0].cost, "the rule at the command line settles the dim before");
}

// The cause is the same that `why` gives.
TEST(LintIdleRule, NamesTheAxisThatAnotherDimOfTheValueHolds) {
  const std::string own =
      "model_name=llama2-7b compile_topology=v6e-8 override_logical_axis_rules=true logical_axis_rules=[[embed,[fsdp]],[mlp,[fsdp]],"
      "[heads,[fsdp]],[q_heads,[fsdp]],[kv_heads,[fsdp]]]";
  const std::vector<Finding> findings = found(own, Check::idle_rule);
  ASSERT_THAT(findings, SizeIs(1)) << "one cause";
  EXPECT_EQ(findings[0].cost, "axis fsdp is taken by embed of the same value");
  EXPECT_THAT(findings[0].what, HasSubstr("rules mlp -> [fsdp], heads -> [fsdp], q_heads -> [fsdp], kv_heads -> [fsdp] never apply"));
}

TEST(LintIdleRule, SaysNothingOfRulesThatComeWithMoesh) {
  EXPECT_THAT(found("model_name=llama2-7b", Check::idle_rule), IsEmpty());
}

// A copy of the base file or of a rule set gives no more findings than the original.
TEST(LintRules, SayNoMoreOfACopyThanOfTheFileThatCameWithMoesh) {
  const test::TemporaryFolder folder;
  for (const std::string name : {"base", "rules/ep-as-dp", "rules/2d-fsdp", "rules/cp-as-ep"}) {
    const std::string text = test::read_text(test::source_folder() / "configs" / (name + ".yml"));
    const std::string copy = folder.write("copy.yml", text);
    for (const std::string model : {"llama2-7b", "mixtral-8x7b", "deepseek2-16b"}) {
      const std::string request = "model_name=" + model + " compile_topology=v6e-8 ";
      const session::Session session = session::open(test::words_of(request + "custom_mesh_and_rule=" + copy));
      for (const Finding& f : lint(session.layout, {session.batch.micro_rows})) {
        EXPECT_TRUE(f.check == Check::sharding_tolerance || f.check == Check::competing_dims) << name << " " << model << ": " << f.what;
      }
    }
  }
}

TEST(LintIdleRule, SaysNothingWhenEveryRuleActs) {
  const Layout layout = made(test::mesh_of({{"x", 2}}), {rule("batch", {"x"}), rule("a", {"x"})}, {{"w", {"a"}, {8}}},
                             {{"h", {"batch"}, {8}}});
  EXPECT_THAT(only(lint(layout, {8}), Check::idle_rule), IsEmpty());
}

TEST(LintAbsentAxis, NamesAxesOfARuleThatTheMeshLacks) {
  const Layout layout = made(test::mesh_of({{"fsdp", 2}}),
                             {rule("a", {"fsdp", "tensor"}, "mine.yml:4"), rule("b", {"tensor"}, "mine.yml:5")},
                             {{"p", {"a", "b"}, {8, 8}}}, {});
  const std::vector<Finding> findings = only(lint(layout, {8}), Check::absent_axis);
  ASSERT_THAT(findings, SizeIs(1)) << "one cause";
  EXPECT_EQ(findings[0].severity, Severity::warning);
  EXPECT_EQ(findings[0].what, "rules a -> [fsdp, tensor], b -> [tensor] name tensor, which the mesh lacks");
  EXPECT_EQ(findings[0].where, "mine.yml:4, mine.yml:5");
  EXPECT_EQ(findings[0].cost, "dims that bear the label are whole on every device");
  EXPECT_EQ(findings[0].fix, "add tensor to mesh_axes, or take it out of the rule");
}

TEST(LintAbsentAxis, SaysNothingOfRulesThatComeWithMoesh) {
  EXPECT_THAT(found("model_name=llama2-7b custom_mesh_and_rule=ep-as-dp compile_topology=v6e-8", Check::absent_axis), IsEmpty());
}

TEST(LintAbsentAxis, SaysNothingWhenTheMeshHasThemAll) {
  EXPECT_THAT(found("model_name=llama2-7b compile_topology=v6e-8", Check::absent_axis), IsEmpty());
}

TEST(LintStages, SaysThatTheyAreNotRun) {
  const std::vector<Finding> findings =
      found("model_name=llama2-7b compile_topology=v6e-8 ici_pipeline_parallelism=2", Check::stages_not_run);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].severity, Severity::warning);
  EXPECT_EQ(findings[0].what, "axis stage=2 makes pipeline stages, which are laid out, but not run yet");
  EXPECT_EQ(findings[0].fix,
            "ici_pipeline_parallelism=1 dcn_pipeline_parallelism=1, and another axis for these devices");
  EXPECT_THAT(found("model_name=llama2-7b compile_topology=v6e-8", Check::stages_not_run), IsEmpty());
}

TEST(LintUnruledLabel, NamesLabelsWithoutARule) {
  const Layout layout = made(test::mesh_of({{"x", 2}}), {rule("batch", {"x"})}, {{"w", {"a", "b"}, {8, 8}}}, {});
  const std::vector<Finding> findings = only(lint(layout, {8}), Check::unruled_label);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].severity, Severity::info);
  EXPECT_EQ(findings[0].what, "no rule names the labels a, b");
  EXPECT_EQ(findings[0].where, "e.g. w");
  EXPECT_EQ(findings[0].fix, "- [a, [AXIS]] in the rule set, if that was not meant");
}

TEST(LintUnruledLabel, SaysNothingWhenAllHaveOne) {
  const Layout layout =
      made(test::mesh_of({{"x", 2}}), {rule("batch", {"x"}), rule("a", {})}, {{"w", {"a", ""}, {8, 8}}}, {});
  EXPECT_THAT(only(lint(layout, {8}), Check::unruled_label), IsEmpty());
}

TEST(LintAxes, FlagsAnAxisThatShardsNothing) {
  const std::vector<Finding> findings = found(
      "model_name=llama2-7b compile_topology=v6e-8 ici_expert_parallelism=2 override_logical_axis_rules=true "
      "logical_axis_rules=[[embed,[fsdp]],[activation_batch,[fsdp]]]",
      Check::unused_axis);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].what, "axis expert shards nothing");
  EXPECT_EQ(findings[0].where, "mesh axis expert=2");
  EXPECT_EQ(findings[0].cost, "2 devices hold and compute the same");
  EXPECT_EQ(findings[0].fix, "ici_expert_parallelism=1, or a rule that uses it");
  EXPECT_THAT(findings[0].tries, ::testing::Contains(Keys{"ici_fsdp_parallelism=8", "ici_expert_parallelism=1"}));
}

TEST(LintAxes, SaysNothingOfAxesThatShardSomething) {
  EXPECT_THAT(found("model_name=llama2-7b compile_topology=v6e-8 ici_tensor_parallelism=2 ici_fsdp_parallelism=4", Check::unused_axis),
              IsEmpty());
}

TEST(LintTolerance, NamesTheLargestThatLeaveAnAxisOutAndWhatTheyCouldUse) {
  const std::vector<Finding> findings =
      found("model_name=llama2-7b compile_topology=v6e-8 logical_axis_rules=[[embed_vocab,[]]]", Check::sharding_tolerance);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].severity, Severity::warning);
  EXPECT_EQ(findings[0].what,
            "3.9 % of the parameters leave out an axis that could shard them (fsdp); sharding_tolerance allows 2.0 %");
  EXPECT_THAT(findings[0].where, HasSubstr("token_embedder/embedding leaves out fsdp (no rule of its labels names it; it divides vocab, "
                                           "embed_vocab)"));
  EXPECT_THAT(findings[0].cost, HasSubstr("they and their moments take 2.93 GiB a device, spread over these axes 375.0 MiB"));
}

TEST(LintTolerance, SaysWhichRuleWasPassedOverForWhat) {
  const std::vector<config::AxisRule> rules{rule("a", {"fsdp"}, "r.yml:1"), rule("b", {"tensor", "fsdp"}, "r.yml:2")};
  const Layout layout = made(test::mesh_of({{"fsdp", 2}, {"tensor", 2}}), rules, {{"w", {"a", "b"}, {8, 8}}}, {});
  const std::vector<Finding> findings = only(lint(layout, {8, 0.02, true}), Check::sharding_tolerance);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].severity, Severity::error) << "a run refuses it where the key is given";
  EXPECT_THAT(findings[0].where, HasSubstr("w leaves out tensor (the rule of b at r.yml:2 is passed over whole, as fsdp is taken by a; "
                                           "it divides a, b)"));
}

TEST(LintTolerance, SaysNothingOfSmallTensorsNorOfPlainDataParallelism) {
  EXPECT_THAT(found("model_name=mixtral-8x7b compile_topology=v6e-8", Check::sharding_tolerance), IsEmpty());
  EXPECT_THAT(found("model_name=llama2-7b compile_topology=v6e-8 ici_data_parallelism=8 ici_fsdp_parallelism=1", Check::sharding_tolerance),
              IsEmpty());
}

TEST(LintBlockedByOne, FlagsARuleThatLostToAnAxisOfSizeOne) {
  const std::vector<config::AxisRule> rules{rule("a", {"one"}), rule("b", {"x", "one"}, "r.yml:2")};
  const Layout layout = made(test::mesh_of({{"x", 2}, {"one", 1}}), rules, {{"w", {"a", "b"}, {8, 8}}}, {});
  const std::vector<Finding> findings = only(lint(layout, {8}), Check::blocked_by_one);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].what, "the rule for b was passed over for axis one, which has size 1");
  EXPECT_EQ(findings[0].where, "w (rule at r.yml:2)");
  EXPECT_EQ(findings[0].fix, "add a second rule for b without one");
}

TEST(LintBlockedByOne, SaysNothingWhenAFallbackMadeUpForIt) {
  const std::vector<config::AxisRule> rules{rule("a", {"one"}), rule("b", {"x", "one"}), rule("b", {"x"})};
  const Layout layout = made(test::mesh_of({{"x", 2}, {"one", 1}}), rules, {{"w", {"a", "b"}, {8, 8}}}, {});
  EXPECT_THAT(only(lint(layout, {8}), Check::blocked_by_one), IsEmpty());
}

TEST(LintUneven, IsAnErrorForParametersAndAWarningForActivations) {
  const std::vector<config::AxisRule> rules{rule("a", {"x"})};
  const Layout layout = made(test::mesh_of({{"x", 4}}), rules, {{"w", {"a"}, {6}}}, {{"h", {"a"}, {9}}});
  const std::vector<Finding> findings = only(lint(layout, {8}), Check::uneven);
  ASSERT_THAT(findings, SizeIs(2));
  EXPECT_EQ(findings[0].severity, Severity::error);
  EXPECT_EQ(findings[0].what, "a of size 6 does not divide over 4 shards (x=4); it divides over 1, 2, 3, 6");
  EXPECT_EQ(findings[0].cost, "it cannot be laid out so");
  EXPECT_EQ(findings[1].severity, Severity::warning);
  EXPECT_EQ(findings[1].cost, "blocks of 3: 3 of 4 shards hold anything");
  EXPECT_TRUE(has_errors(findings));
}

// The key and value heads of all layers are one cause.
TEST(LintUneven, IsToldOnceForAllTensorsOfACause) {
  const std::vector<Finding> findings =
      found("model_name=llama3-8b compile_topology=v5p-32 ici_tensor_parallelism=16 ici_fsdp_parallelism=1", Check::uneven);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_THAT(findings[0].what, HasSubstr("kv_heads of size 8 does not divide over 16 shards (tensor=16); it divides over 1, 2, 4, 8"));
  EXPECT_EQ(findings[0].where, "decoder/layers/self_attention/key/kernel, decoder/layers/self_attention/value/kernel");
  EXPECT_THAT(findings[0].tries, ::testing::Contains(Keys{"ici_fsdp_parallelism=2", "ici_tensor_parallelism=8"}));
}

TEST(LintUneven, SaysNothingWhenSizesDivide) {
  EXPECT_THAT(found("model_name=llama2-7b compile_topology=v6e-8", Check::uneven), IsEmpty());
}

TEST(LintSmallBatch, IsAnErrorWhenTheBatchDoesNotDivide) {
  const std::vector<Finding> findings = found("compile_topology=v6e-8 per_device_batch_size=1.5", Check::small_batch);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].severity, Severity::error);
  EXPECT_EQ(findings[0].what, "a batch of 12 rows does not divide over 8 shards");
  EXPECT_THAT(findings[0].tries, ::testing::Contains(Keys{"per_device_batch_size=1"}));
}

TEST(LintSmallBatch, WarnsOfAPassSmallerThanItsShards) {
  const std::vector<Finding> findings =
      found("model_name=llama2-7b compile_topology=v6e-8 per_device_batch_size=0.5", Check::small_batch);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].severity, Severity::warning);
  EXPECT_EQ(findings[0].what, "a pass of 4 rows is smaller than the 8 shards of its batch");
  EXPECT_EQ(findings[0].cost, "4 of 8 shards get no row");
}

// 6 rows over 4 shards are 2, 2, 2 and none; 7 rows are 2, 2, 2 and 1.
TEST(LintSmallBatch, TellsWhatTheLastShardsHave) {
  const auto cost = [](const std::string& rows) {
    const std::string request = "model_name=llama2-7b compile_topology=h100-4 gradient_accumulation_steps=4 per_device_batch_size=" + rows;
    const std::vector<Finding> findings = found(request, Check::small_batch);
    return findings.size() == 1 ? findings[0].cost : "";
  };
  EXPECT_EQ(cost("1.5"), "1 of 4 shards get no row");
  EXPECT_EQ(cost("1.75"), "the last of 4 shards has 1 row where the others have 2");
}

TEST(LintSmallBatch, SaysNothingWhenTheLengthIsShardedInstead) {
  EXPECT_THAT(
      found("model_name=mixtral-8x7b compile_topology=v6e-8 per_device_batch_size=0.5 custom_mesh_and_rule=ep-as-cp "
            "ici_expert_parallelism=2",
            Check::small_batch),
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
      {Severity::warning, Check::uneven, "it", "what it is", "where it is", "what it costs", "what to do"},
      {Severity::info, Check::idle_rule, "that", "w", "x", "y"}};
  EXPECT_EQ(to_text(findings),
            "warning: what it is [uneven]\n  where: where it is\n  cost:  what it costs\n  fix:   what to do\n"
            "info: w [idle-rule]\n  where: x\n  cost:  y\n"
            "0 errors, 1 warning, 1 remark.\n");
  EXPECT_EQ(to_text({}), "nothing odd.\n");
  EXPECT_FALSE(has_errors(findings));
  EXPECT_EQ(name_of(Severity::error), "error");
}

TEST(Lint, PrintsWhatFixesLeadTo) {
  Finding f{Severity::warning, Check::uneven, "it", "what", "where", "cost", "in words"};
  f.fixes = {{{"a=1", "b=2"}, 1 << 30, 2 << 30, 1.5, 1.25}, {{"c=3"}, 3L << 30, 2L << 30, 0.5, 0}};
  EXPECT_THAT(to_text({f}), HasSubstr("  fix:   a=1 b=2   (1.00 GiB a device, 1.50 s a step, 1.25 x the speed)\n"
                                      "  or:    c=3   (3.00 GiB a device, 500 ms a step; does not fit 2.00 GiB)\n"));
  const auto json = nlohmann::json::parse(to_json(std::vector{f}))["findings"][0];
  EXPECT_EQ(json["fix"], "a=1 b=2");
  EXPECT_EQ(json["fixes"][0]["peak_bytes_per_device"], 1 << 30);
  EXPECT_EQ(json["fixes"][1]["fits"], false);
}

TEST(Lint, PrintsWhatAFixChangesBesides) {
  Finding f{Severity::warning, Check::uneven, "it", "what", "where", "cost", "in words"};
  Fix larger{{"a=1"}, 1 << 30, 2 << 30, 31.4, 1.25};
  larger.devices = 1024;
  larger.tokens = 2.5;
  Fix rounded{{"b=2"}, 1 << 30, 2 << 30, 0.5, 1};
  rounded.is_narrow = rounded.rounds = true;
  f.fixes = {larger, rounded};
  EXPECT_THAT(to_text({f}),
              HasSubstr("  fix:   a=1   (1.00 GiB a device, 31.4 s a step, 1.25 x the speed of a device, 1,024 devices, 2.5 x the tokens a step)\n"
                        "  or:    b=2   (1.00 GiB a device, 500 ms a step, 1.00 x the speed; fits narrowly; the losses differ)\n"));
}

// A shell would interpret brackets and blanks, so they are quoted.
TEST(Lint, PrintsFixesToBePasted) {
  Finding f{Severity::warning, Check::uneven, "it", "what", "where", "cost", "in words"};
  f.fixes = {{{"mlp_activations=[silu, linear]", "a=1"}}};
  EXPECT_THAT(to_text({f}), HasSubstr("  fix:   'mlp_activations=[silu, linear]' a=1   (laid out, not planned)\n"));
  EXPECT_EQ(nlohmann::json::parse(to_json(std::vector{f}))["findings"][0]["fix"], "'mlp_activations=[silu, linear]' a=1");
}

// A pasted fix keeps the rules that the command line already has.
TEST(Lint, AddsRulesToThoseOfTheCommandLine) {
  const session::Session session = test::session("model_name=llama2-7b logical_axis_rules=[[mlp,[tensor]],[embed_vocab,[]]]");
  EXPECT_EQ(with_rules(session.layout, {{"embed_vocab", {{"fsdp"}}}, {"norm", {{}}}}),
            Keys{"logical_axis_rules=[[mlp,[tensor]],[embed_vocab,[fsdp]],[norm,[]]]"});
  const session::Session of_a_set = test::session("model_name=llama2-7b custom_mesh_and_rule=2d-fsdp");
  EXPECT_THAT(with_rules(of_a_set.layout, {{"norm", {{}}}}), IsEmpty()) << "a set's rules replace those of the command line";
}

TEST(Lint, IsAlsoJson) {
  const std::vector<Finding> findings{{Severity::warning, Check::uneven, "it", "what \"it\" is", "where", "cost", "fix"}};
  const auto json = nlohmann::json::parse(to_json(findings));
  ASSERT_EQ(json["findings"].size(), 1u);
  EXPECT_EQ(json["findings"][0]["severity"], "warning");
  EXPECT_EQ(json["findings"][0]["check"], "uneven");
  EXPECT_EQ(json["findings"][0]["what"], "what \"it\" is");
  EXPECT_TRUE(nlohmann::json::parse(to_json(std::vector<Finding>{}))["findings"].empty());
}

}  // namespace
}  // namespace moesh::sharding
