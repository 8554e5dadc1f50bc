// Opening a request: its headline, and what only a run refuses.
#include "session/session.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/rule_sources.h"
#include "tests/support.h"

namespace moesh::session {
namespace {

using ::testing::HasSubstr;

std::string headline_of(const std::string& request) { return headline(open(test::words_of(request))); }

TEST(Session, HasAHeadline) {
  EXPECT_EQ(headline_of("model_name=mixtral-8x7b compile_topology=v6e-8 ici_expert_parallelism=4"),
            "mixtral-8x7b on v6e-8: 8 devices as fsdp=2 x expert=4, default rules");
  EXPECT_EQ(headline_of("compile_topology=v6e-8 compile_topology_num_slices=2 custom_mesh_and_rule=ep-as-dp"),
            "default on v6e-8: 16 devices as data=2 (2 slices x 1) x fsdp=8, ep-as-dp rules");
  EXPECT_EQ(headline_of("ici_fsdp_parallelism=1"), "default on cpu-1: 1 device as one device, default rules");
}

// A layout under changed rules must not pass for one under the default rules.
TEST(Session, TellsInItsHeadlineWhatChangesTheDefaultRules) {
  const auto rules_in = [](const std::string& request) {
    const std::string headline = headline_of(request);
    return headline.substr(headline.rfind(", ") + 2);
  };
  const std::string rule = "logical_axis_rules=[[embed,[data]]] ";
  EXPECT_EQ(rules_in(rule), "default rules with changes of the command line");
  EXPECT_EQ(rules_in("model_name=llama2-7b"), "default rules with changes of the model");
  EXPECT_EQ(rules_in("model_name=llama2-7b " + rule), "default rules with changes of the model and the command line");
  EXPECT_EQ(rules_in("model_name=deepseek3-671b-2dfsdp"), "rules of the model");
  EXPECT_EQ(rules_in(rule + "override_logical_axis_rules=true"), "rules of the command line");
  EXPECT_EQ(rules_in("ici_pipeline_parallelism=2 compile_topology=cpu-2 ici_fsdp_parallelism=1"), "default rules");
  const test::TemporaryFolder folder;
  const std::string file = folder.write("mine.yml", "logical_axis_rules: [[embed, [fsdp]]]\n");
  EXPECT_EQ(rules_in(file), "rules of " + file);
  EXPECT_EQ(rules_in(file + " " + rule), "rules of the command line");
  EXPECT_EQ(rules_in(file + " custom_mesh_and_rule=ep-tp"), "ep-tp rules");
}

// Users may keep their files in folders of the names that the built-in ones have.
TEST(Session, TellsRulesOfTheUsersFilesFromBuiltInOnesOfTheSameName) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() + "/configs/models");
  const test::WorkingFolder here(folder.path());
  for (const std::string file : {"configs/base.yml", "configs/models/mine.yml"}) {
    folder.write(file, "logical_axis_rules: [[embed, [fsdp]]]\n");
    EXPECT_EQ(config::rules_words(open({file}).loaded.settings), "rules of " + file);
  }
}

TEST(Session, MultipliesFloat32AtThePrecisionThatIsAskedFor) {
  const auto rate = [](const std::string& precision) {
    return test::session("compile_topology=v5p-8 matmul_precision=" + precision).target.chip.f32_rate().value();
  };
  EXPECT_EQ(rate("default"), 459e12);
  EXPECT_EQ(rate("bfloat16"), 459e12);
  EXPECT_EQ(rate("high"), 153e12);
  EXPECT_EQ(rate("highest"), 76.5e12);
  EXPECT_EQ(rate("float32"), 76.5e12);
}

TEST(Session, OfARunRefusesWhatCanOnlyBeLaidOut) {
  const std::vector<std::string> request{"dataset_type=hf"};
  EXPECT_EQ(test::message_of([&] { open(request); }), "no error");
  EXPECT_THAT(test::message_of([&] { open_to_run(request, config::Run::training); }),
              HasSubstr("dataset_type=hf is not supported by moesh"));
}

}  // namespace
}  // namespace moesh::session
