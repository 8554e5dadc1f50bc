// The lists of `moesh help` at several terminal widths, and filters of layouts.
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "config/builtin.h"
#include "config/schema.h"
#include "mesh/hardware.h"
#include "mesh/topology.h"
#include "tests/cli/outcome.h"

namespace moesh::cli {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Lists, FitTheTerminal) {
  std::vector<std::string> lines{"--help", "help keys", "help models", "help rules", "help hardware"};
  for (const Command* command : commands()) lines.push_back(std::string(command->name) + " --help");
  for (const char* columns : {"80", "120", "200"}) {
    const test::Variable width("COLUMNS", columns);
    for (const std::string& line : lines) {
      for (const std::string& printed : split(outcome(line).out, '\n')) EXPECT_LE(display_width(printed), std::stoi(columns)) << line;
    }
  }
}

TEST(Lists, TellTheSizesOfModels) {
  const std::string models = outcome("help models").out;
  for (const std::string& name : config::builtin_names("models")) EXPECT_THAT(models, HasSubstr("\n  " + name + " "));
  EXPECT_THAT(models, ContainsRegex("  mixtral-8x7b +46\\.7 B +12\\.9 B +32 +2 of 8 +mixtral\n"));
  EXPECT_THAT(models, ContainsRegex("  deepseek3-671b +671\\.0 B +37\\.6 B +61 +8 of 256 \\+ 1 shared +deepseek\n"));
  EXPECT_THAT(models, ContainsRegex("  llama2-7b +6\\.74 B +6\\.74 B +32 +- +llama2\n"));
}

TEST(Lists, LogNoNotices) {
  std::vector<std::string> lines{"help models", "help keys", "help rules", "help hardware"};
  for (const std::string& name : config::builtin_names("models")) lines.push_back("help " + name);
  for (const std::string& line : lines) EXPECT_EQ(outcome(line).err, "") << line;
}

TEST(Lists, TellWhatHardwareCanDo) {
  const std::string hardware = outcome("help hardware").out;
  for (const std::string& name : mesh::hardware_names()) EXPECT_THAT(hardware, HasSubstr("\n  " + name + " "));
  EXPECT_THAT(hardware, ContainsRegex("  h100 +80\\.0 GiB +3350 +989\\.5 +nvlink 450, infiniband 50 +65,536 +8  NVIDIA H100 SXM\n"));
  EXPECT_THAT(hardware, ContainsRegex("  v6e +32\\.0 GiB +1638 +918 +ici 400, dcn 12\\.5 +256 +-  Google TPU v6e"));
}

// The text on one line, with single spaces.
std::string unfolded(const std::string& text) {
  std::string line;
  for (const char c : text) {
    const bool is_blank = c == ' ' || c == '\n';
    if (!is_blank || (!line.empty() && line.back() != ' ')) line += is_blank ? ' ' : c;
  }
  return line;
}

TEST(Lists, TellOfEveryKey) {
  for (const config::Topic& topic : config::topics()) {
    for (const config::Key& key : topic.keys) {
      const Outcome told = outcome("help " + std::string(key.name));
      EXPECT_EQ(told.code, 0) << key.name;
      EXPECT_THAT(unfolded(told.out), HasSubstr(unfolded(std::string(key.help)))) << key.name;
    }
  }
}

// Each name of a list is a topic of its own, which shows the file that defines it.
TEST(Lists, TellOfEachNameByItself) {
  for (const char* folder : {"rules", "models", "hardware"}) {
    for (const std::string& name : config::builtin_names(folder)) {
      if (std::string(folder) == "models" && name.size() % 3 != 0) continue;  // each is built, which takes a while
      const Outcome told = outcome("help " + name);
      EXPECT_EQ(told.code, 0) << name << told.err;
      EXPECT_THAT(told.out, HasSubstr(std::string(config::find_builtin(std::string(folder) + "/" + name + ".yml")->text))) << name;
      EXPECT_THAT(told.out, ::testing::StartsWith(name + ": ")) << name;
    }
  }
  EXPECT_THAT(outcome("help v5p").out, AllOf(HasSubstr("\nsizes: v5p-8, v5p-16, v5p-32, "), HasSubstr("v5p-17920 has 8,960 devices\n")));
  EXPECT_THAT(outcome("help v5").err, HasSubstr("did you mean v4, v5e, v5p?"));
}

// The sizes that help tells are machines, and those that a search finds none of are refused with a pointer to it.
TEST(Lists, TellSizesOfMachinesThatThereAre) {
  const std::string told = outcome("help v6e").out, sizes = told.substr(told.find("sizes: ") + 7);
  for (const std::string& name : split(sizes.substr(0, sizes.find(';')), ','))
    EXPECT_NO_THROW(mesh::find_topology(trim(name), 1)) << name;
  EXPECT_THAT(outcome("search model_name=llama2-7b compile_topology=v6e-8 --devices 9..15").err,
              HasSubstr("fix: `moesh help v6e` tells the sizes that there are"));
}

TEST(Lists, TellAllOfARuleSetAndOfAKey) {
  const test::Variable width("COLUMNS", "80");
  const std::string rules = outcome("help rules").out;
  EXPECT_THAT(rules, HasSubstr("also inside an expert."));
  EXPECT_THAT(outcome("help keys").out, Not(HasSubstr("…\n")));
}

TEST(Filters, ThatKeepNothingNameTheNearest) {
  const std::string request = " model_name=mixtral-8x7b compile_topology=v6e-8 ici_expert_parallelism=4";
  const Outcome slip = outcome("shardings --filter atention" + request);
  EXPECT_EQ(slip.code, 2);
  EXPECT_THAT(slip.err, HasSubstr("no tensor's path holds 'atention', and none bears it as a label\n  fix: did you mean attention?\n"));
  EXPECT_THAT(outcome("shardings --json --filter embd" + request).err, HasSubstr("fix: did you mean embed"));
  EXPECT_THAT(outcome("shardings --filter nothing-like-it" + request).err,
              HasSubstr("\n  fix: `moesh shardings --activations` lists all paths\n"));
  EXPECT_EQ(outcome("shardings --filter nothing-like-it" + request + " --diff steps=1").code, 2);
}

TEST(Filters, AreHeededWhateverIsPrinted) {
  const std::string request = " --filter MoeBlock_0 model_name=mixtral-8x7b compile_topology=v6e-8 ici_expert_parallelism=4";
  const auto dump = nlohmann::json::parse(outcome("shardings --json" + request).out);
  std::set<std::string> paths;
  for (const auto& parameter : dump["params"]) paths.insert(parameter["path"]);
  EXPECT_EQ(paths.size(), 4u);
  for (const std::string& path : paths) EXPECT_THAT(path, HasSubstr("MoeBlock_0"));
  const std::string moved = outcome("shardings" + request + " --diff ici_fsdp_parallelism=8 ici_expert_parallelism=1").out;
  EXPECT_THAT(moved, HasSubstr("MoeBlock_0/wi_0"));
  EXPECT_THAT(moved, Not(HasSubstr("self_attention")));
  EXPECT_THAT(moved, HasSubstr("\nOf the tensors that match MoeBlock_0:\n3 tensors of the state move. "));
  const auto bytes = [](const std::string& line) { return nlohmann::json::parse(outcome(line).out)["state_bytes_per_device"]["before"].get<double>(); };
  const std::string all = request.substr(request.find(" model")), diff = " --json --diff ici_fsdp_parallelism=8 ici_expert_parallelism=1";
  EXPECT_LT(bytes("shardings" + request + diff), bytes("shardings" + all + diff)) << "sums are of what is listed";
  // Filtering by a label that only activations have lists activations.
  EXPECT_THAT(outcome("shardings" + request.substr(request.find(" model")) + " --filter activation_embed").out, HasSubstr("layer_output"));
}

TEST(Filters, HaveNoPlaceBesideLint) {
  for (const std::string option : {"--filter wi_0", "--activations", "--diff steps=1"}) {
    const Outcome refused = outcome("shardings --lint " + option);
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.err, HasSubstr("--lint looks at the whole layout, so " + option.substr(0, option.find(' ')) + " has no effect beside it"));
  }
}

TEST(Shardings, GivesLayoutAndFindingsInOneJson) {
  const Outcome both = outcome("shardings --json --lint compile_topology=v6e-8 per_device_batch_size=1.5");
  EXPECT_EQ(both.code, 1);
  const auto json = nlohmann::json::parse(both.out);
  EXPECT_FALSE(json["params"].empty());
  EXPECT_EQ(json["findings"], nlohmann::json::parse(outcome("lint --json compile_topology=v6e-8 per_device_batch_size=1.5").out)["findings"]);
}

}  // namespace
}  // namespace moesh::cli
