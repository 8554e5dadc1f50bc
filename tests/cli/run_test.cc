// Whole command lines: exit codes, what goes to which stream, help, and that every example in the help runs.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "foreign/words.h"
#include "tests/cli/outcome.h"
#include "tests/paths.h"
#include "tests/process.h"
#include "tests/support.h"

namespace moesh::cli {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kSmallRun =
    " base_num_decoder_layers=2 base_emb_dim=64 base_mlp_dim=128 vocab_size=256 per_device_batch_size=1";
const std::string kCapacity =
    " model_name=mixtral-8x7b compile_topology=v6e-8 ici_expert_parallelism=4 sparse_matmul=false capacity_factor=1.25";

TEST(Run, ReturnsZeroWhenDoneAndKeepsTheErrorStreamEmpty) {
  const Outcome done = outcome("shardings" + kSmallRun);
  EXPECT_EQ(done.code, 0);
  EXPECT_THAT(done.out, StartsWith("default on cpu-8: 8 devices as fsdp=8, default rules\n8 rows of 2,048 tokens a step, 1 a device\n\n"));
  EXPECT_THAT(done.err, IsEmpty());
}

TEST(Run, ReturnsTwoForAWrongRequestAndSaysWhyOnTheErrorStream) {
  const Outcome wrong = outcome("shardings model_name=grok-314b");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.out, IsEmpty());
  EXPECT_THAT(wrong.err, StartsWith("moesh: error: the command line: unknown model 'grok-314b'\n  fix: "));
}

TEST(Run, ReturnsOneWhenTheLintFindsAnError) {
  EXPECT_EQ(outcome("lint compile_topology=v6e-8 per_device_batch_size=1.5").code, 1);
  EXPECT_EQ(outcome("lint model_name=llama2-7b").code, 0);
  EXPECT_EQ(outcome("shardings --lint compile_topology=v6e-8 per_device_batch_size=1.5").code, 1);
}

TEST(Run, PutsNoticesOnTheErrorStream) {
  const Outcome noted = outcome("shardings src/maxtext/configs/base.yml --json" + kSmallRun);
  EXPECT_EQ(noted.code, 0);
  EXPECT_EQ(noted.err, "moesh: note: src/maxtext/configs/base.yml is not there; the built-in base.yml is used\n");
  EXPECT_TRUE(nlohmann::json::accept(noted.out));
}

TEST(Run, SuggestsTheNearestCommand) {
  EXPECT_EQ(outcome("shardigns").err,
            "moesh: error: the command line: unknown command 'shardigns'\n  fix: moesh shardings\n");
  EXPECT_EQ(outcome("xyzzy").err,
            "moesh: error: the command line: unknown command 'xyzzy'\n  fix: `moesh --help` lists the commands\n");
  EXPECT_EQ(outcome("xyzzy").code, 2);
}

TEST(Run, ShortensWhatItDoesNotKnow) {
  const std::string start = "moesh: error: the command line: unknown ";
  EXPECT_THAT(outcome(std::string(10'000, 'x')).err, StartsWith(start + "command '" + std::string(79, 'x') + "…'\n"));
  EXPECT_THAT(outcome("shardings --" + std::string(10'000, 'x')).err,
              StartsWith(start + "option '--" + std::string(77, 'x') + "…', one of "));
  for (const char* command : {"shardings ", "lint ", "graph ", "help ", "why "}) {
    const std::string said = outcome(command + std::string(10'000, 'x')).err;
    EXPECT_THAT(said, HasSubstr("'" + std::string(79, 'x') + "…'"));
    EXPECT_LT(said.size(), 300u);
  }
}

TEST(Run, SuggestsTheNearestOption) {
  const Outcome wrong = outcome("shardings --activation");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_EQ(wrong.err,
            "moesh: error: the command line: unknown option '--activation', one of --help, --activations, --filter, "
            "--json, --diff, "
            "--lint, --decode, --prefill, --from, --hf was expected\n  fix: --activations\n");
}

TEST(Run, NamesTheCommandsThatHaveAnOption) {
  EXPECT_THAT(outcome("lint --decode").err, EndsWith("  fix: leave it out; it is an option of shardings, why, compile, search, tokenize\n"));
  EXPECT_THAT(outcome("train --nope").err, EndsWith("lists the keys, which are given without dashes\n"));
}

TEST(Run, ChecksTheValuesOfOptions) {
  EXPECT_EQ(outcome("shardings --json=1").err, "moesh: error: the command line: --json takes no value\n");
  EXPECT_EQ(outcome("shardings --filter").err,
            "moesh: error: the command line: --filter takes TEXT, which is missing\n");
}

TEST(Run, RefusesWordsThatAreNoRequest) {
  EXPECT_EQ(outcome("shardings mixtral").err,
            "moesh: error: the command line: 'mixtral' is neither a FILE.yml nor key=value\n"
            "  fix: `moesh shardings --help` shows examples\n");
  EXPECT_EQ(outcome("lint mixtral").code, 2);
  EXPECT_EQ(outcome("graph mixtral").code, 2);
}

TEST(Run, PrintsHelpAndVersion) {
  for (const char* line : {"", "--help", "-h", "help"}) {
    const Outcome help = outcome(line);
    EXPECT_EQ(help.code, 0) << line;
    for (const Command* command : commands()) EXPECT_THAT(help.out, HasSubstr("  " + std::string(command->name) + " "));
  }
  EXPECT_THAT(outcome("--version").out, StartsWith("moesh "));
}

TEST(Help, OfEveryCommandHasExamples) {
  for (const Command* command : commands()) {
    const std::string name(command->name);
    SCOPED_TRACE(name);
    const Outcome help = outcome(name + " --help");
    EXPECT_EQ(help.code, 0);
    EXPECT_THAT(help.out, StartsWith("usage: moesh " + name + " "));
    EXPECT_THAT(help.out, HasSubstr("\nexamples:\n  moesh " + name));
    EXPECT_FALSE(command->examples.empty());
    EXPECT_FALSE(command->summary.empty());
    EXPECT_EQ(outcome("help " + name).out, help.out);
    for (const Option& option : command->options) {
      EXPECT_THAT(help.out, HasSubstr(std::string(option.name)));
      EXPECT_FALSE(option.help.empty());
    }
  }
}

// A server runs until it is asked to end.
void expect_served(const std::string& example) {
  const test::TemporaryFolder folder;
  const bool has_port = example.find(" --port ") != std::string::npos;
  test::Process process(example + (has_port ? "" : " --port 0"), folder.path());
  EXPECT_TRUE(test::wait_until([&] { return process.out().find("moesh serves ") != std::string::npos; })) << process.err();
  process.send(SIGTERM);
  EXPECT_EQ(process.wait(), 0) << process.err();
}

// Examples are what a user types at the top of a clone. Here that is a folder that looks like a clone and keeps what the examples write.
TEST(Help, ShowsExamplesThatRun) {
  const test::TemporaryFolder clone;
  for (const char* name : {"configs", "tests"})
    std::filesystem::create_directory_symlink(test::source_folder() / name, std::filesystem::path(clone.path()) / name);
  const test::WorkingFolder top(clone.path());
  for (const Command* command : commands()) {
    for (const std::string_view example : command->examples) {
      SCOPED_TRACE(example);
      EXPECT_THAT(std::string(example), StartsWith(std::string(command->name)));
      if (command->name == "serve") {
        expect_served(std::string(example));
        continue;
      }
      std::vector<std::string> words;
      for (const foreign::ShellWord& word : foreign::shell_words(example, "an example")) words.push_back(word.text);
      const Outcome shown = outcome_of(words);
      const bool tells_by_code = command->name == "lint" || example.starts_with("checkpoint diff");
      EXPECT_TRUE(shown.code == 0 || (tells_by_code && shown.code == 1)) << shown.err;
      EXPECT_FALSE(shown.out.empty());
    }
  }
}

TEST(Help, TellsAboutAKey) {
  const Outcome key = outcome("help ici_fsdp_parallelism");
  EXPECT_EQ(key.code, 0);
  EXPECT_EQ(
      key.out,
      "ici_fsdp_parallelism\n  devices along the fsdp axis within a slice; -1 for what is left\n  type:    an integer\n"
      "  default: -1\n  range:   -1..1048576\n  status:  used\n");
  EXPECT_THAT(outcome("help dtype").out, HasSubstr("  one of:  bfloat16, float32; not done here: float16\n"));
  EXPECT_THAT(outcome("help run_name").out, HasSubstr("  default: ''\n"));
  EXPECT_THAT(outcome("help dump_hlo").out, HasSubstr("accepted without effect"));
  EXPECT_THAT(outcome("help prefuse_moe_weights").out, HasSubstr("  status:  refused unless at its default"));
  EXPECT_THAT(outcome("help dropout_rate").out, HasSubstr("  status:  refused by a run unless at its default; plans leave it out"));
  EXPECT_THAT(outcome("help num_epoch").out, HasSubstr("  status:  refused by a run unless at its default"));
  EXPECT_THAT(outcome("help n_routing_groups").out, HasSubstr("\n  only with: models named deepseek3..., decoder_block=deepseek4, or routing_group_score\n"));
}

TEST(Help, ListsWhatThereIs) {
  EXPECT_THAT(outcome("help keys").out, HasSubstr("per_device_batch_size"));
  EXPECT_THAT(outcome("help models").out, HasSubstr("\n  mixtral-8x7b "));
  EXPECT_THAT(outcome("help rules").out, HasSubstr("  ep-tp                Expert parallelism that is tensor parallelism"));
  EXPECT_THAT(outcome("help hardware").out, HasSubstr("\n  mi355x "));
}

TEST(Help, SuggestsTheNearestKey) {
  const Outcome wrong = outcome("help step");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(
      wrong.err,
      StartsWith("moesh: error: the command line: 'step' is neither a key nor a command, and no model, rule set or hardware\n  fix: did you "
                 "mean steps"));
  EXPECT_THAT(outcome("help xyzzyxyzzyxyzzy").err, HasSubstr("fix: `moesh help keys` lists all keys"));
}

TEST(Shardings, PrintsJsonOnRequest) {
  const auto dump = nlohmann::json::parse(outcome("shardings --json" + kSmallRun).out);
  std::set<std::string> keys;
  for (const auto& [key, value] : dump.items()) keys.insert(key);
  EXPECT_THAT(keys, ::testing::IsSupersetOf({"mesh", "input", "params", "activations", "optimizer", "totals"}));
  EXPECT_EQ(dump["optimizer"], "same as params") << "Adam's moments lie as their parameters do";
}

TEST(Shardings, FiltersTensors) {
  const Outcome some = outcome("shardings --filter logits" + kSmallRun);
  EXPECT_THAT(some.out, HasSubstr("logits_dense"));
  EXPECT_THAT(some.out, Not(HasSubstr("token_embedder")));
  EXPECT_EQ(outcome("shardings --filter=logits" + kSmallRun).out, some.out);
}

TEST(Shardings, ShowsWhatAChangeMoves) {
  const Outcome moved = outcome("shardings" + kCapacity + " --diff moe_dispatch_no_expert_sharding=true");
  EXPECT_EQ(moved.code, 0);
  EXPECT_THAT(moved.out,
              HasSubstr("before: mixtral-8x7b on v6e-8: 8 devices as fsdp=2 x expert=4, default rules\nafter:  "));
  EXPECT_THAT(moved.out, HasSubstr("\n3 activations move: "));
  EXPECT_THAT(outcome("shardings" + kCapacity + " --diff steps=3").out, HasSubstr("nothing moves.\n"));
  const auto json = nlohmann::json::parse(outcome("shardings --json" + kCapacity + " --diff moe_dispatch_no_expert_sharding=true").out);
  EXPECT_EQ(json["differences"].size(), 3u) << json.dump();
}

TEST(Lint, PrintsJsonOnRequest) {
  const auto findings = nlohmann::json::parse(outcome("lint --json" + kCapacity).out);
  ASSERT_FALSE(findings["findings"].empty());
  const auto& first = findings["findings"][0];
  for (const char* key : {"check", "severity", "what", "fixes"}) EXPECT_TRUE(first.contains(key)) << first.dump();
}

TEST(WhyCommand, NamesOneTensor) {
  EXPECT_EQ(outcome("why dispatched" + kCapacity).code, 0);
  EXPECT_TRUE(nlohmann::json::accept(outcome("why --json dispatched" + kCapacity).out));
  EXPECT_EQ(outcome("why" + kCapacity).err,
            "moesh: error: the command line: 0 tensors are named, one was expected\n  fix: moesh why TENSOR [FILE.yml] "
            "[key=value ...]\n");
  EXPECT_EQ(outcome("why a b" + kCapacity).code, 2);
}

TEST(WhyCommand, TellsOfTheMomentsThatShardingsSaysLieOtherwise) {
  const std::string model = " model_name=llama2-7b compile_topology=v6e-8 ici_data_parallelism=2 ici_fsdp_parallelism=4";
  const std::string words = "Moments that lie otherwise than their parameters: ", over = " shard_optimizer_over_data=true";
  EXPECT_THAT(outcome("shardings" + model).out, Not(HasSubstr(words)));
  const std::string told = outcome("shardings" + model + over).out;
  ASSERT_THAT(told, HasSubstr(words));
  const std::size_t begin = told.find("`moesh why ") + 11;
  const Outcome why = outcome("why " + told.substr(begin, told.find(" ...`") - begin) + model + over);
  EXPECT_EQ(why.code, 0) << why.err;
  EXPECT_THAT(why.out, ::testing::AllOf(HasSubstr("\nThen data is put first in dim "), Not(HasSubstr("\nUsed"))));
}

TEST(WhyCommand, TellsABiasAndWhatEntersTheExpertsOfItApart) {
  const std::string model = " model_name=gpt-oss-20b compile_topology=mi355x-8";
  const Outcome told = outcome("why decoder/layers/layers_0/GptOssMlp/wo_bias" + model);
  EXPECT_EQ(told.code, 0) << told.err;
  EXPECT_THAT(told.out, HasSubstr("decoder/layers/layers_0/GptOssMlp/wo_bias  [32, 12, 2880] float32"));
  EXPECT_THAT(outcome("why layers_0/GptOssMlp/wo_bias_entering" + model).out, HasSubstr("wo_bias_entering  [32, 2880] "));
}

TEST(WhyCommand, SaysWhatItFoundInstead) {
  EXPECT_THAT(
      outcome("why decoder/logits_dense/kernle" + kCapacity).err,
      StartsWith(
          "moesh: error: the command line: no tensor's path holds 'decoder/logits_dense/kernle'\n  fix: did you mean "
          "decoder/logits_dense/kernel"));
  EXPECT_THAT(outcome("why xyzzyxyzzyxyzzy" + kCapacity).err,
              HasSubstr("fix: `moesh shardings --activations` lists all paths"));
  EXPECT_THAT(outcome("why hidden_" + kCapacity).err, HasSubstr("'hidden_' is part of 3 paths: "));
  const std::string many = outcome("why decoder" + kCapacity).err;
  EXPECT_THAT(many, HasSubstr(" more\n  fix: name one of them whole"));
  EXPECT_EQ(std::count(many.begin(), many.end(), ','), 11) << "a dozen are listed";
}

TEST(Why, RefusesTheLayoutsThatShardingsRefuses) {
  const std::string uneven = " compile_topology=v6e-8 vocab_size=32001 ici_tensor_parallelism=8 ici_fsdp_parallelism=1";
  const Outcome refused = outcome("why token_embedder" + uneven);
  EXPECT_EQ(refused.code, 2);
  EXPECT_EQ(refused.err, outcome("shardings" + uneven).err);
}

TEST(Why, AndShardingsEndWithWhatAStepTakes) {
  const std::string request = " model_name=llama2-7b compile_topology=v6e-8";
  for (const std::string command : {"why token_embedder", "shardings"})
    EXPECT_THAT(outcome(command + request).out, ::testing::HasSubstr("\nA training step takes ")) << command;
}

TEST(GraphCommand, PrintsTheModel) {
  const Outcome graph = outcome("graph" + kSmallRun);
  EXPECT_EQ(graph.code, 0);
  EXPECT_THAT(graph.out, HasSubstr(" parameters, "));
  EXPECT_THAT(graph.out, HasSubstr("= repeat "));
}

TEST(Binary, DoesTheSameAsTheFunction) {
  const auto status = [](const std::string& line) {
    return std::system((test::binary() + " " + line + " >/dev/null 2>&1").c_str()) >> 8;
  };
  EXPECT_EQ(status("--help"), 0);
  EXPECT_EQ(status("shardings" + kSmallRun), 0);
  EXPECT_EQ(status("shardings stepz=3"), 2);
  EXPECT_EQ(status("lint compile_topology=v6e-8 per_device_batch_size=1.5"), 1);
}

}  // namespace
}  // namespace moesh::cli
