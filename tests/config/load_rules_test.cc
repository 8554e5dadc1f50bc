// Which rules and mesh axes are in force: those of files, presets, the command line and rule sets.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/builtin.h"
#include "config/load.h"
#include "tests/config/loaded.h"
#include "tests/support.h"

namespace moesh::config {
namespace {

using test::message_of;
using test::TemporaryFolder;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

TEST(LoadModel, AppendsThePresetsOwnRulesAndRemovesThoseOfTheirLabels) {
  const Settings plain = settings_of("");
  const Settings llama = settings_of("model_name=llama2-7b");
  EXPECT_EQ(rules_of(plain, "norm"), "[tensor]");
  EXPECT_EQ(rules_of(llama, "norm"), "[fsdp]");
  EXPECT_EQ(llama.rules("logical_axis_rules").back().label, "norm");
  EXPECT_EQ(llama.rules("logical_axis_rules").size(), plain.rules("logical_axis_rules").size());
}

TEST(LoadRules, MergesAnOverrideByLabelAndPutsItLast) {
  const Settings settings = settings_of("logical_axis_rules=[[embed,[tensor]],[mine,[data]]]");
  EXPECT_EQ(rules_of(settings, "embed"), "[tensor]") << "both default rules of the label are gone";
  const std::vector<AxisRule>& rules = settings.rules("logical_axis_rules");
  EXPECT_EQ(rules.back().label, "mine");
  EXPECT_EQ(rules[rules.size() - 2].label, "embed");
  EXPECT_EQ(rules_of(settings, "exp"), "[expert]");
}

TEST(LoadRules, OfAFileReplaceThoseOfTheFileThatItInherits) {
  const TemporaryFolder folder;
  const std::string older = folder.write("older.yml", "logical_axis_rules: [[embed, [tensor]], [mlp, [fsdp]]]\n");
  EXPECT_EQ(settings_of(older).rules("logical_axis_rules").size(), 2u) << "the list of base.yml is replaced";
  const std::string young = folder.write("young.yml", "base_config: older.yml\nlogical_axis_rules: [[embed, [data]]]\n");
  EXPECT_EQ(settings_of(young).rules("logical_axis_rules").size(), 1u);
  EXPECT_EQ(rules_of(settings_of(young), "embed"), "[data]");
  EXPECT_EQ(settings_of(folder.write("same.yml", "base_config: older.yml\n")).rules("logical_axis_rules").size(), 2u);
  const Settings merged = settings_of(young + " model_name=llama2-7b logical_axis_rules=[[embed,[fsdp]],[heads,[tensor]]]");
  EXPECT_EQ(merged.rules("logical_axis_rules").size(), 3u) << "a preset and the command line merge by label";
  EXPECT_EQ(rules_of(merged, "norm") + rules_of(merged, "embed") + rules_of(merged, "heads"), "[fsdp][fsdp][tensor]");
}

TEST(LoadRules, SayWhenTheOrderToReplaceThemHasNoRulesBesideIt) {
  EXPECT_EQ(refusal("override_logical_axis_rules=true"),
            "the command line: override_logical_axis_rules=true without logical_axis_rules, which would leave no rules at all\n"
            "  fix: logical_axis_rules=[[embed,[fsdp]],...] beside it, or leave it out");
  EXPECT_EQ(refusal("override_logical_axis_rules=false"), "no error");
  const TemporaryFolder folder;
  const std::string file = folder.write("a.yml", "steps: 3\noverride_logical_axis_rules: true\n");
  const std::string note = ": override_logical_axis_rules=true has no effect without logical_axis_rules beside it";
  EXPECT_THAT(loaded(file + " logical_axis_rules=[[embed,[fsdp]]]").notices, ElementsAre(file + ":2" + note));
  EXPECT_GT(settings_of(file + " logical_axis_rules=[[embed,[fsdp]]]").rules("logical_axis_rules").size(), 1u);
  EXPECT_THAT(loaded("override_logical_axis_rules=true custom_mesh_and_rule=pure-fsdp").notices, ElementsAre("the command line" + note));
}

TEST(LoadRules, SayWhatGivesWayToARuleSet) {
  const std::string way = " gives way to the rule set pure-fsdp, which has its own";
  EXPECT_THAT(loaded("custom_mesh_and_rule=pure-fsdp logical_axis_rules=[[embed,[]]]").notices,
              ElementsAre("the command line: logical_axis_rules" + way));
  const TemporaryFolder folder;
  const std::string file = folder.write("a.yml", "mesh_axes: [data, fsdp]\n");
  EXPECT_THAT(loaded(file + " custom_mesh_and_rule=pure-fsdp").notices, ElementsAre(file + ":1: mesh_axes" + way));
  EXPECT_THAT(loaded("custom_mesh_and_rule=pure-fsdp model_name=llama2-7b").notices, IsEmpty()) << "the preset's rules are not the user's";
}

TEST(LoadRules, ReplacesTheListOnRequest) {
  EXPECT_EQ(settings_of("override_logical_axis_rules=true logical_axis_rules=[[embed,[tensor]]]")
                .rules("logical_axis_rules")
                .size(),
            1u);
}

TEST(LoadRules, ReplacesAxesAndRulesByARuleSet) {
  const Settings settings = settings_of("custom_mesh_and_rule=ep-as-cp");
  EXPECT_EQ(settings.texts("mesh_axes"), (std::vector<std::string>{"data", "stage", "fsdp", "expert"}));
  EXPECT_EQ(rules_of(settings, "norm"), "");
  EXPECT_EQ(settings.origin("mesh_axes").source, Source::rule_set);
}

TEST(LoadRules, KnowsEveryRuleSetOfTheDesign) {
  for (const char* name : {"pure-fsdp", "2d-fsdp", "ep-as-cp", "cp-as-ep", "ep-as-dp", "shard-exp-on-fsdp",
                           "pipeline-large-moe", "fsdp-as-dp-for-attn", "ep-tp"}) {
    EXPECT_EQ(refusal(std::string("custom_mesh_and_rule=") + name), "no error");
  }
  EXPECT_EQ(builtin_names("rules").size(), 9u);
}

TEST(LoadRules, ReadsARuleSetFromAFile) {
  const TemporaryFolder folder;
  const std::string file = folder.write("mine.yml", "mesh_axes: [data, fsdp]\nlogical_axis_rules: [[embed, fsdp]]\n");
  const Settings settings = settings_of("custom_mesh_and_rule=" + file);
  EXPECT_EQ(settings.texts("mesh_axes").size(), 2u);
  EXPECT_EQ(settings.rules("logical_axis_rules").front().where, file + ":2");
  EXPECT_EQ(refusal("custom_mesh_and_rule=none.yml"), "none.yml: no such file\n  fix: check the path");
}

TEST(LoadRules, ReadsWhatAFileOfARuleSetInherits) {
  const TemporaryFolder folder;
  folder.write("older.yml", "mesh_axes: [data, fsdp]\nlogical_axis_rules: [[embed, fsdp]]\n");
  const std::string file = folder.write("young.yml", "base_config: older.yml\nlogical_axis_rules: [[mlp, fsdp]]\n");
  const Settings settings = settings_of("custom_mesh_and_rule=" + file);
  EXPECT_EQ(settings.texts("mesh_axes").size(), 2u);
  EXPECT_EQ(rules_of(settings, "embed") + rules_of(settings, "mlp"), "[fsdp]");
}

TEST(LoadRules, RefusesOtherKeysInARuleSet) {
  const TemporaryFolder folder;
  const std::string file = folder.write("mine.yml", "mesh_axes: [data]\nsteps: 3\n");
  EXPECT_EQ(refusal("custom_mesh_and_rule=" + file),
            file +
                ":2: steps has no place in a rule set\n"
                "  fix: a rule set holds mesh_axes, data_sharding, context_sharding and logical_axis_rules");
}

TEST(LoadRules, RefusesARuleSetThatSaysNothing) {
  const TemporaryFolder folder;
  for (const char* text : {"", "# nothing\n", "data_sharding: [[data]]\n", "context_sharding: context\n"}) {
    const std::string file = folder.write("mine.yml", text);
    EXPECT_EQ(refusal("custom_mesh_and_rule=" + file),
              file +
                  ": the rule set holds neither mesh_axes nor logical_axis_rules\n"
                  "  fix: `moesh help rules` lists rule sets to start from; leave custom_mesh_and_rule out for the "
                  "default rules");
  }
  const std::string axes = folder.write("axes.yml", "mesh_axes: [data, fsdp]\n");
  EXPECT_THAT(loaded("custom_mesh_and_rule=" + axes).notices,
              Contains("the rule set " + axes + " holds no logical_axis_rules: the default rules stay"));
  const std::string none = folder.write("none.yml", "logical_axis_rules: []\n");
  EXPECT_THAT(settings_of("custom_mesh_and_rule=" + none).rules("logical_axis_rules"), IsEmpty()) << "it says so";
}

TEST(LoadRules, SuggestsTheNearestRuleSet) {
  EXPECT_EQ(
      refusal("custom_mesh_and_rule=ep-as-pc"),
      "the command line: unknown rule set 'ep-as-pc', one of 2d-fsdp, cp-as-ep, ep-as-cp, ep-as-dp, ep-tp, "
      "fsdp-as-dp-for-attn, pipeline-large-moe, pure-fsdp, shard-exp-on-fsdp or the path of a YAML file was expected\n"
      "  fix: custom_mesh_and_rule=ep-as-cp");
}

// Nothing is laid out by it, but a name that is none is a mistake all the same.
TEST(LoadRules, OfEvaluationsAreCheckedToo) {
  for (const std::string name : {"pure-fsdp", "ep-as-cp", "''", "null"}) {
    EXPECT_EQ(refusal("custom_mesh_and_rule_for_eval=" + name), "no error") << name;
  }
  EXPECT_THAT(refusal("custom_mesh_and_rule_for_eval=bogus"), StartsWith("the command line: unknown rule set 'bogus', one of 2d-fsdp, "));
  EXPECT_THAT(refusal("custom_mesh_and_rule_for_eval=pure-fdsp"), HasSubstr("\n  fix: custom_mesh_and_rule_for_eval=pure-fsdp"));
}

TEST(LoadRules, ShortensANameThatIsNone) {
  EXPECT_THAT(refusal("custom_mesh_and_rule=" + std::string(10'000, 'x')),
              StartsWith("the command line: unknown rule set '" + std::string(79, 'x') + "…', one of "));
}

TEST(LoadRules, InferWhichAxisCarriesTheContext) {
  EXPECT_EQ(settings_of("").text("context_sharding"), "context");
  EXPECT_EQ(settings_of("custom_mesh_and_rule=ep-as-cp").text("context_sharding"), "expert");
  EXPECT_EQ(settings_of("custom_mesh_and_rule=cp-as-ep").text("context_sharding"), "context");
  EXPECT_THAT(loaded("custom_mesh_and_rule=ep-as-cp context_sharding=expert").notices, IsEmpty());
  EXPECT_THAT(
      loaded("custom_mesh_and_rule=ep-as-cp context_sharding=context").notices,
      Contains("context_sharding=context gives way to the rule set ep-as-cp, which lays the context on expert"));
}

TEST(LoadRules, PutsStagesFirstInAPipeline) {
  const Settings settings = settings_of("ici_pipeline_parallelism=2");
  EXPECT_EQ(settings.texts("mesh_axes")[1], "stage");
  EXPECT_EQ(settings.texts("mesh_axes")[2], "data");
  EXPECT_EQ(rules_of(settings, "activation_embed_and_logits_batch"), "[stage, data, fsdp, fsdp_transpose, expert]");
  const Settings own = settings_of("ici_pipeline_parallelism=2 mesh_axes=[stage,data,fsdp,tensor,expert]");
  EXPECT_EQ(own.texts("mesh_axes").front(), "stage") << "where it stands already";
}

struct ReplacedCase {
  std::string option, rule_set, outcome;
};

TEST(Replaced, AnswersTheAttentionOptionUnderEveryRuleSet) {
  const std::string already = "expert_shard_attention_option=";
  for (const ReplacedCase& c :
       std::vector<ReplacedCase>{{"tp", "ep-tp", "notice"},
                                 {"tp", "", "use custom_mesh_and_rule=ep-tp instead"},
                                 {"tp", "ep-as-cp", "use custom_mesh_and_rule=ep-tp instead"},
                                 {"context", "ep-as-cp", "notice"},
                                 {"context", "", "use custom_mesh_and_rule=ep-as-cp instead"},
                                 {"context", "ep-tp", "use custom_mesh_and_rule=ep-as-cp instead"},
                                 {"fsdp", "", "notice"},
                                 {"fsdp", "ep-tp", "leave both options out: the default rules say it"},
                                 {"", "", "nothing"},
                                 {"", "ep-tp", "nothing"}}) {
    SCOPED_TRACE(c.option + " under " + c.rule_set);
    std::vector<std::string> request{"expert_shard_attention_option=" + c.option};
    if (!c.rule_set.empty()) request.push_back("custom_mesh_and_rule=" + c.rule_set);
    const std::string rules = c.rule_set.empty() ? "the default rules" : "custom_mesh_and_rule=" + c.rule_set;
    const std::string in_force = c.rule_set.empty() ? " are in force" : " is in force";
    if (c.outcome == "notice") {
      EXPECT_THAT(load(request).notices,
                  Contains(already + c.option + " is deprecated: " + rules + " already says it"));
    } else if (c.outcome == "nothing") {
      EXPECT_THAT(load(request).notices, IsEmpty());
    } else {
      EXPECT_EQ(message_of([&] { load(request); }), "the command line: " + already + c.option + " is deprecated, and " +
                                                        rules + in_force + "\n  fix: " + c.outcome);
    }
  }
}

TEST(Replaced, SaysWhatAnOlderNameStandsFor) {
  EXPECT_THAT(loaded("remat_policy=").notices,
              Contains("remat_policy= saves everything, as remat_policy=everything says; for MaxText it is full"));
  EXPECT_THAT(loaded("remat_policy=minimal_flash").notices,
              Contains("remat_policy=minimal_flash is an older name of minimal_with_context"));
}

// As all keys of a preset do, its list of rules gives way as a whole; and a list that replaces the default rules leaves none behind.
TEST(LoadRules, OfAPresetGiveWayUnderOverrideModelConfig) {
  const std::string rules = " logical_axis_rules=[[embed,[fsdp]]]", overrides = " override_model_config=true";
  EXPECT_EQ(rules_of(settings_of("model_name=llama2-70b" + rules), "norm"), "[fsdp]");
  EXPECT_EQ(rules_of(settings_of("model_name=llama2-70b base_emb_dim=64" + overrides), "norm"), "[fsdp]");
  const Loaded given = loaded("model_name=llama2-70b" + overrides + rules);
  EXPECT_EQ(rules_of(given.settings, "norm"), rules_of(settings_of(""), "norm"));
  EXPECT_EQ(rules_of(given.settings, "embed"), "[fsdp]");
  EXPECT_THAT(given.notices, Contains("the rules of the model llama2-70b give way to those that are given, as override_model_config asks"));
  EXPECT_EQ(settings_of("model_name=deepseek3-671b-2dfsdp" + overrides + rules).rules("logical_axis_rules").size(), 1u);
}

TEST(LoadRules, OfAFileThatReplaceTheDefaultRulesAreNoted) {
  const test::TemporaryFolder folder;
  const std::string file = folder.write("mine.yml", "logical_axis_rules: [[embed, [fsdp]]]\n");
  EXPECT_THAT(loaded(file).notices,
              Contains(::testing::AllOf(StartsWith(file + ":1: logical_axis_rules of a file replace all default rules; without one are now: "),
                             HasSubstr(" more. On the command line they replace those of their own labels"))));
  EXPECT_THAT(loaded(file + " custom_mesh_and_rule=ep-tp").notices, ::testing::Not(Contains(HasSubstr("replace all default rules"))));
  EXPECT_THAT(loaded("logical_axis_rules=[[embed,[fsdp]]]").notices, IsEmpty());
}

TEST(Replaced, SaysWhichFamiliesAreOne) {
  EXPECT_THAT(loaded("model_name=qwen3.5-35b-a3b decoder_block=qwen3_5").notices,
              Contains("decoder_block=qwen3_5 is qwen3_next here, with text alone, but for its names in Hugging Face's files"));
  EXPECT_THAT(loaded("model_name=qwen3.5-35b-a3b").notices, IsEmpty());
}

TEST(Replaced, TakesAKeyByItsOlderName) {
  const std::string model = "model_name=deepseek3.2-671b override_model_config=true ";
  const Loaded named = loaded(model + "index_topk=64");
  EXPECT_EQ(named.settings.integer("indexer_topk"), 64);
  EXPECT_THAT(named.notices, Contains("index_topk is an older name of indexer_topk"));
  EXPECT_TRUE(loaded("model_name=deepseek3-671b override_model_config=true use_sparse_indexer=true").settings.boolean("use_indexer"));
  EXPECT_EQ(loaded(model + "index_topk=64 indexer_topk=64").settings.integer("indexer_topk"), 64);
  EXPECT_EQ(message_of([&] { loaded(model + "index_topk=64 indexer_topk=32"); }),
            "the command line: index_topk=64 and indexer_topk=32 are given, which are two names of one key\n"
            "  fix: leave out index_topk, the older name");
}

TEST(Replaced, SaysThatAKernelOfAnotherEngineIsOneOfItsOwn) {
  EXPECT_THAT(loaded("attention=cudnn_flash_te").notices,
              Contains("attention=cudnn_flash_te is computed as attention=flash: kernels are moesh's own"));
  EXPECT_THAT(loaded("attention=flash").notices, IsEmpty());
}

}  // namespace
}  // namespace moesh::config
