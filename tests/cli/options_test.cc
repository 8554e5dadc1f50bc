// No option and no word of a command line is ignored: what has no effect, or would replace what was given before, is refused.
#include <algorithm>
#include <string>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/outcome.h"

namespace moesh::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kAsked = " model_name=mixtral-8x7b compile_topology=v6e-8 ici_fsdp_parallelism=2 ici_expert_parallelism=4";

std::string wrong_line(const std::string& line) {
  const Outcome shown = outcome(line);
  EXPECT_EQ(shown.code, 2) << line;
  EXPECT_EQ(shown.out, "") << line;
  return shown.err;
}

// Values for an option: as many words as it takes.
std::string some_words(const Option& option) {
  std::string words;
  for (std::size_t i = 0; i < 1 + static_cast<std::size_t>(std::count(option.value.begin(), option.value.end(), ' ')); ++i) words += " 1";
  return words;
}

TEST(Options, OfEveryCommandAreGivenOnceUnlessTheyRepeat) {
  for (const Command* command : commands()) {
    for (const Option& option : command->options) {
      if (option.value.empty() || option.value.ends_with("...") || option.repeats) continue;
      const std::string given = fmt::format(" {}{}", option.name, some_words(option));
      EXPECT_EQ(wrong_line(std::string(command->name) + given + given),
                fmt::format("moesh: error: the command line: {} more than once\n  fix: give it once\n", option.name));
    }
  }
  EXPECT_THAT(wrong_line("compile --skew=0.2 --skew 1.0"), HasSubstr("--skew more than once"));
}

TEST(Options, TakeNoEmptyValue) {
  for (const Command* command : commands()) {
    for (const Option& option : command->options) {
      if (option.value.empty() || option.value.find(' ') != std::string::npos || option.value.ends_with("...") || option.repeats) continue;
      EXPECT_EQ(wrong_line(fmt::format("{} {}=", command->name, option.name)),
                fmt::format("moesh: error: the command line: {} takes {}, which is missing\n", option.name, option.value));
    }
  }
}

TEST(Options, ThatTakeAllWordsUpToTheNextNeedOne) {
  for (const Command* command : commands()) {
    for (const Option& option : command->options) {
      if (!option.value.ends_with("...")) continue;
      const std::string missing =
          fmt::format("moesh: error: the command line: {} takes {}, which is missing\n", option.name, option.value);
      const std::string line = fmt::format("{}{} {}", command->name, kAsked, option.name);
      EXPECT_EQ(wrong_line(line), missing);
      EXPECT_EQ(wrong_line(line + " --json"), missing);
      EXPECT_EQ(wrong_line(line + " -- steps=3"), missing);
    }
  }
}

TEST(Options, ThatTakeAllWordsTakeThoseBehindAnEqualsSignToo) {
  const std::string spaced = outcome("shardings" + kAsked + " --diff ici_fsdp_parallelism=4 ici_expert_parallelism=2").out;
  EXPECT_THAT(spaced, StartsWith("before: mixtral-8x7b on v6e-8: 8 devices as fsdp=2 x expert=4, default rules\n"
                                 "after:  mixtral-8x7b on v6e-8: 8 devices as fsdp=4 x expert=2, default rules\n"));
  EXPECT_EQ(outcome("shardings" + kAsked + " --diff=ici_fsdp_parallelism=4 ici_expert_parallelism=2").out, spaced);
}

TEST(HelpCommand, AnswersEveryWord) {
  const std::string experts = outcome("help num_experts").out, capacity = outcome("help capacity_factor").out;
  EXPECT_EQ(outcome("help num_experts capacity_factor").out, experts + "\n" + capacity);
  EXPECT_EQ(outcome("help rules lint").out, outcome("help rules").out + "\n" + outcome("help lint").out);
  EXPECT_THAT(wrong_line("help keys foo"), HasSubstr("'foo' is neither a key nor a command, and no model, rule set or hardware"));
  EXPECT_EQ(outcome("help rules ep-tp").out, outcome("help rules").out + "\n" + outcome("help ep-tp").out);
  EXPECT_THAT(wrong_line("help num_experts=4"), HasSubstr("'num_experts=4' is neither a key nor a command"));
  EXPECT_THAT(wrong_line("help first.yml"), HasSubstr("'first.yml' is neither a key nor a command"));
}

TEST(CheckpointActs, RefuseOptionsOfOthers) {
  EXPECT_EQ(wrong_line("checkpoint ls run --keep 3"),
            "moesh: error: the command line: --keep has no effect on `checkpoint ls`, which takes --json\n  fix: leave it out\n");
  EXPECT_EQ(wrong_line("checkpoint diff a b --filter x"),
            "moesh: error: the command line: --filter has no effect on `checkpoint diff`, which takes --json and --threads\n"
            "  fix: leave it out\n");
  for (const char* line : {"ls run --filter x", "ls run --threads 2", "show run --keep 2", "show run --threads 2",
                           "check run --filter x", "check run --keep 2", "diff a b --keep 2", "rm run --keep 2 --json",
                           "rm run --keep 2 --filter x"}) {
    EXPECT_THAT(wrong_line(std::string("checkpoint ") + line), HasSubstr(" has no effect on `checkpoint ")) << line;
  }
}

TEST(Exchange, OfExpertsThatNoDevicesShareHasANote) {
  const std::string alone = "shardings model_name=mixtral-8x7b compile_topology=v6e-8 ici_expert_parallelism=1 ";
  const auto note = [](const std::string& keys) {
    return "moesh: note: without effect on this mesh: " + keys + " (only with experts on several devices)\n";
  };
  EXPECT_EQ(outcome(alone + "use_ring_of_experts=true").err, note("use_ring_of_experts"));
  EXPECT_EQ(outcome(alone + "ragged_buffer_factor=2").err, note("ragged_buffer_factor"));
  EXPECT_EQ(outcome(alone + "ragged_buffer_factor=2 use_ring_of_experts=true use_ragged_sort=true").err,
            note("use_ring_of_experts, ragged_buffer_factor"));
  EXPECT_EQ(outcome(alone + "ragged_buffer_factor=0.5 use_ring_of_experts=true use_ragged_sort=true").err, "") << "drops rows";
  EXPECT_EQ(outcome("shardings" + kAsked + " use_ring_of_experts=true").err, "");
}

// Under ep-tp the devices of the expert axis have the same tokens.
TEST(Exchange, OfTokensThatAllDevicesHaveHasANote) {
  const std::string same = "shardings model_name=mixtral-8x7b compile_topology=v6e-8 ici_expert_parallelism=4 custom_mesh_and_rule=ep-tp ";
  EXPECT_EQ(outcome(same + "use_ring_of_experts=true").err,
            "moesh: note: without effect on this mesh: use_ring_of_experts (devices with different experts have the same tokens here)\n");
  EXPECT_EQ(outcome(same).err, "");
}

TEST(Balance, OfTokensThatExpertsDropHasANote) {
  const std::string request = "shardings model_name=mixtral-8x7b compile_topology=v6e-8 ici_context_parallelism=2 sparse_matmul=false ";
  EXPECT_THAT(outcome(request + "capacity_factor=1.25").err, HasSubstr("context_parallel_load_balance is left off: which tokens"));
  EXPECT_THAT(outcome("shardings model_name=deepseek4-tiny compile_topology=v6e-8 ici_context_parallelism=2").err,
              HasSubstr("context_parallel_load_balance is left off: keys that are made of neighbouring tokens would depend on the mesh"));
  EXPECT_EQ(outcome(request).err, "");
}

}  // namespace
}  // namespace moesh::cli
