// Values of keys as files, the environment and the command line give them.
#include "config/assignments.h"

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/load.h"
#include "config/support.h"
#include "tests/config/loaded.h"
#include "tests/support.h"

namespace moesh::config {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// MaxText asks for the variables of its keys, and for no others.
TEST(Environment, AVariableOfAnotherProgramIsLeftAlone) {
  for (const char* name : {"M_FOO", "M_", "M_PATH", "M_ARCH", "M_ARENA_MAX", "M_HOME", "M_CONFIG", "M_XYZZY_XYZZY", "M_PERTURB_"}) {
    const test::Variable variable(name, "7");
    EXPECT_THAT(loaded("").notices, IsEmpty()) << name;
  }
}

TEST(Environment, AVariableThatIsNearlyAKeyIsToldOf) {
  for (const auto& [name, meant] : {std::pair("M_STEPZ", "M_STEPS"), std::pair("M_LEARNING_RAT", "M_LEARNING_RATE"),
                                    std::pair("M_MODEL_NAM", "M_MODEL_NAME"), std::pair("M_BASE_EMB_DIMS", "M_BASE_EMB_DIM")}) {
    const test::Variable variable(name, "7");
    EXPECT_THAT(loaded("").notices, ElementsAre(std::string(name) + " in the environment names no key; did you mean " + meant + "?"));
  }
}

// As MaxText, whose files name others by their place in its folder of configurations.
TEST(BaseConfig, IsLookedForInTheFolderOfConfigurationsToo) {
  const test::TemporaryFolder folder;
  const auto make = [&](const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(folder.path() + "/" + path).parent_path());
    return folder.write(path, text);
  };
  make("configs/base.yml", "steps: 11\n");
  make("configs/inference/serving.yml", "base_config: base.yml\nbase_emb_dim: 64\n");
  make("configs/post_train/sft.yml", "base_config: base.yml\nvocab_size: 96\n");
  const std::string deep = make("configs/tpu/v5e/deep.yml", "base_config: inference/serving.yml\nlearning_rate: 2\n");
  const Settings settings = settings_of(deep);
  EXPECT_EQ(settings.integer("steps"), 11);
  EXPECT_EQ(settings.integer("base_emb_dim"), 64);
  EXPECT_EQ(settings.real("learning_rate"), 2);
  const std::string beside = make("configs/tpu/v5e/near.yml", "base_config: deep.yml\n");
  make("configs/deep.yml", "steps: 12\n");
  EXPECT_EQ(settings_of(beside).integer("steps"), 11) << "a file beside comes first";
  EXPECT_EQ(settings_of(make("configs/post_train/mine/a.yml", "base_config: post_train/sft.yml\n")).integer("vocab_size"), 96);
  const std::string inner = make("configs/mine/configs/b.yml", "base_config: inference/serving.yml\n");
  EXPECT_THAT(refusal(inner), HasSubstr("base_config 'inference/serving.yml' is not there")) << "the nearest folder of that name counts";
  const std::string outside = make("other/c.yml", "base_config: inference/serving.yml\n");
  EXPECT_THAT(refusal(outside), HasSubstr("base_config 'inference/serving.yml' is not there\n"
                                          "  fix: name a file beside this one, or in the folder `configs` around it"));
  const test::WorkingFolder here(folder.path() + "/configs/tpu");
  EXPECT_EQ(settings_of("v5e/deep.yml").integer("steps"), 11);
}

constexpr const char* kOfLora = "low-rank adapters: a mapping whose enable_lora is true";

TEST(NestedKeys, LoraThatIsOffSaysNothing) {
  const test::TemporaryFolder folder;
  const std::string more = "lora_rank: 0, lora_alpha: 0.0, lora_module_path: \"\", lora_weight_qtype: null, lora_tile_size: null";
  for (const std::string off : {"false", "False", "no"}) {
    const std::string file = folder.write("a.yml", "lora: {enable_lora: " + off + ", " + more + ", lora_restore_path: \"\"}\n");
    EXPECT_THAT(loaded(file).notices, IsEmpty()) << off;
    EXPECT_TRUE(settings_of(file).is_default("lora"));
  }
  EXPECT_EQ(refusal(folder.write("b.yml", "lora: {" + more + "}\n")), "no error") << "it is off by default";
  for (const std::string on : {"true", "yes", "maybe", "[]"})
    EXPECT_THAT(refusal(folder.write("c.yml", "lora: {enable_lora: " + on + ", " + more + "}\n")), HasSubstr(kOfLora)) << on;
}

TEST(NestedKeys, AreGivenOneValueAtATimeToo) {
  EXPECT_EQ(refusal("lora.enable_lora=true"), "the command line: lora={enable_lora: true} asks for what moesh does not do (" +
                                                  std::string(kOfLora) + ")\n  fix: leave lora at {}");
  EXPECT_THAT(refusal("lora.enable_lora=true lora.lora_rank=4"), HasSubstr("lora={enable_lora: true, lora_rank: 4} asks"));
  EXPECT_THAT(refusal("lora.lora_rank=4 lora.enable_lora=true"), HasSubstr(kOfLora));
  for (const char* off :
       {"lora.enable_lora=false", "lora.enable_lora=true lora.enable_lora=false", "lora.lora_rank=8", "lora.lora_restore_path="})
    EXPECT_THAT(loaded(off).notices, IsEmpty()) << off;
  EXPECT_THAT(refusal("student_overrides.model_name=llama2-7b"),
              HasSubstr("student_overrides={model_name: llama2-7b} asks for what moesh does not do"));
  EXPECT_THAT(refusal("steps.a=1"), HasSubstr("unknown key 'steps.a'")) << "steps holds nothing";
  EXPECT_THAT(refusal("lora=true"), HasSubstr("lora=true asks for what moesh does not do"));
}

TEST(NestedKeys, SettingsOfDpoFollowUseDpo) {
  const std::string note = "without effect here (`moesh help KEY` says why): dpo";
  EXPECT_THAT(loaded("dpo.dpo_beta=0.2").notices, ElementsAre(note));
  EXPECT_THAT(loaded("dpo.dpo_beta=0.2 use_dpo=true").notices, Contains(HasSubstr("planned without: use_dpo=true")));
  EXPECT_THAT(test::message_of([] { check_run(settings_of("dpo.dpo_beta=0.2 use_dpo=true"), Run::training); }),
              HasSubstr("use_dpo=true asks"));
}

}  // namespace
}  // namespace moesh::config
