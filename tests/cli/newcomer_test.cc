// The first commands that a new user types: requests based on configs/first.yml, help in every form, and keys with dashes.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/load.h"
#include "config/schema.h"
#include "tests/cli/outcome.h"

namespace moesh::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kSaysFirst = "configs/first.yml, as neither a file nor a model is named\n";

std::string train_in(const test::TemporaryFolder& folder, const std::string& request) {
  const Outcome done = outcome("train " + request + " base_output_directory=" + folder.path());
  EXPECT_EQ(done.code, 0) << done.err;
  return done.out;
}

TEST(Newcomer, GoesOnFromTheFirstFileWhateverElseIsAsked) {
  const test::TemporaryFolder folder;
  for (const std::string request : {"steps=1", "steps=1 max_target_length=64 num_experts=4", "steps=1 per_device_batch_size=1 --skew 1"}) {
    const std::string out = train_in(folder, request);
    EXPECT_THAT(out, StartsWith(kSaysFirst + "default on cpu-8: 8 devices as fsdp=2 x expert=4, default rules\n"));
    EXPECT_THAT(out, HasSubstr("from the bytes of /usr/share/common-licenses"));
    EXPECT_THAT(out, HasSubstr("\nNext:\n"));
  }
}

TEST(Newcomer, TakesARequestThatNamesItsModelAsItIs) {
  const test::TemporaryFolder folder;
  const std::string small =
      "base_emb_dim=32 base_mlp_dim=32 base_num_decoder_layers=1 vocab_size=32 max_target_length=8 per_device_batch_size=1 "
      "dataset_type=synthetic steps=1 log_config=false enable_checkpointing=false run_name=r compile_topology=cpu-1";
  EXPECT_THAT(train_in(folder, small), StartsWith("the built-in base.yml, as base_emb_dim is given\ndefault on cpu-1: "));
  EXPECT_THAT(train_in(folder, "decoder_block=mixtral num_experts=2 " + small),
              StartsWith("the built-in base.yml, as decoder_block is given\ndefault on cpu-1: "));
  EXPECT_THAT(train_in(folder, "model_name=qwen3-0.6b override_model_config=true " + small), StartsWith("qwen3-0.6b on cpu-1: "));
  const std::string own = folder.write("own.yml", "steps: 1\n");
  EXPECT_THAT(train_in(folder, own + " " + small), StartsWith("default on cpu-1: "));
  const test::Variable named("M_BASE_EMB_DIM", "32");
  EXPECT_THAT(train_in(folder, small.substr(small.find(' '))), StartsWith("the built-in base.yml, as base_mlp_dim is given\n"));
}

// Only the keys that describe a model keep configs/first.yml from being used.
TEST(Newcomer, KnowsWhichKeysNameAModel) {
  EXPECT_EQ(config::what_names_the_model({}).words, "");
  EXPECT_EQ(config::what_names_the_model({"steps=1", "a.yml"}).words, "a.yml");
  for (const config::Topic& topic : config::topics()) {
    for (const config::Key& key : topic.keys) {
      if (key.kind != config::Kind::integer || key.status != config::Status::used || key.range.empty()) continue;
      const std::string name(key.name);
      const bool names = (name.starts_with("base_") && name != "base_config") || name == "head_dim" || name == "global_parameter_scale";
      EXPECT_EQ(config::what_names_the_model({name + "=1"}).words, names ? name : "") << name;
    }
  }
  EXPECT_EQ(config::what_names_the_model({"decoder_block=mixtral"}).words, "decoder_block");
  EXPECT_EQ(config::what_names_the_model({"model_name=mixtral-8x7b"}).words, "model_name");
  const test::Variable named("M_MODEL_NAME", "mixtral-8x7b");
  EXPECT_EQ(config::what_names_the_model({"steps=1"}).words, "M_MODEL_NAME");
}

TEST(Newcomer, GetsHelpInEveryForm) {
  for (const Command* command : commands()) {
    const std::string name(command->name);
    const std::string help = outcome("help " + name).out;
    for (const std::string& line : {name + " -h", name + " --help", name + " steps=3 -h", "help -h " + name}) {
      const Outcome shown = outcome(line);
      EXPECT_EQ(shown.code, 0) << line;
      if (!line.starts_with("help -h")) {
        EXPECT_EQ(shown.out, help) << line;
      }
      EXPECT_THAT(shown.out, StartsWith("usage: moesh ")) << line;
    }
  }
  EXPECT_EQ(outcome("-h").out, outcome("help").out);
  EXPECT_THAT(outcome("--version").out, StartsWith("moesh "));
}

TEST(Newcomer, IsToldThatKeysHaveNoDashes) {
  const auto said = [](const std::string& spelled) {
    return "moesh: error: the command line: '" + spelled + "' is a key, not an option: keys are given without dashes\n  fix: ";
  };
  EXPECT_EQ(outcome("train --steps=3").err, said("--steps=3") + "steps=3\n");
  EXPECT_EQ(outcome("train --steps 3").err, said("--steps") + "steps=3\n");
  EXPECT_EQ(outcome("train --steps").err, said("--steps") + "steps=VALUE\n");
  EXPECT_EQ(outcome("lint -steps=3").err, said("-steps=3") + "steps=3\n");
  EXPECT_EQ(outcome("shardings --ici-fsdp-parallelism=2").err, said("--ici-fsdp-parallelism=2") + "ici_fsdp_parallelism=2\n");
  EXPECT_EQ(outcome("train --steps=3").code, 2);
  EXPECT_THAT(outcome("train --stepz=3").err, HasSubstr("\n  fix: steps=VALUE, without dashes\n"));
  EXPECT_THAT(outcome("train --warmup-steps 3").err, HasSubstr("\n  fix: warmup_steps_fraction=VALUE, without dashes\n"));
  EXPECT_THAT(outcome("train --nope").err, HasSubstr("\n  fix: `moesh help keys` lists the keys, which are given without dashes\n"))
      << "nope_layer_interval is not meant";
}

// The header is printed before the step is planned, so it appears even if the plan does not fit this machine.
TEST(Newcomer, SeesWhatIsTrainedBeforeAnythingSlow) {
  const Outcome refused = outcome("train model_name=llama3-405b compile_topology=cpu-1 dataset_type=synthetic per_device_batch_size=1");
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.out, HasSubstr("llama3-405b on cpu-1: 1 device as one device, default rules\n"));
  EXPECT_THAT(refused.out, HasSubstr(" parameters, "));
}

}  // namespace
}  // namespace moesh::cli
