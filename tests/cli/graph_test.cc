// `moesh graph`: prints the model, the graph after each pass, the partitioned graph with its choices, and the plan.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "graph/parse.h"
#include "plan/arena.h"
#include "tests/cli/outcome.h"
#include "tests/graph/same_graph.h"
#include "tests/plan/plan_support.h"
#include "train/graph_passes.h"

namespace moesh::cli {
namespace {

using test::kOnTwo;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string printed(const std::string& options) {
  const Outcome made = outcome("graph " + kOnTwo + options);
  EXPECT_EQ(made.code, 0) << made.err;
  return made.out;
}

// The printed text can be parsed as it is, including its remarks.
TEST(GraphCommand, PrintsGraphsThatAreReadBack) {
  EXPECT_EQ(test::difference_of(graph::parse_graph(printed("")).graph, test::session(kOnTwo).graph), "");
  for (const train::GraphPass& pass : train::graph_passes()) {
    const std::string text = printed("--after " + std::string(pass.name));
    EXPECT_THAT(text, StartsWith(fmt::format("# before {}: {}\n# after {}: {}\n# default on cpu-2", pass.name, pass.before,
                                             pass.name, pass.after)));
    EXPECT_EQ(graph::parse_graph(text).mesh.has_value(), pass.says_layouts);
  }
}

TEST(GraphCommand, PrintsAGraphAfterEachPass) {
  const std::string capacity = "sparse_matmul=false capacity_factor=1 ";
  EXPECT_THAT(printed(capacity + "--after model"), HasSubstr("= slot_mask "));
  const std::string slots = printed(capacity + "--after slots");
  EXPECT_THAT(slots, Not(HasSubstr("= slot_mask ")));
  EXPECT_THAT(slots, HasSubstr("= fill_slots "));
  EXPECT_THAT(slots, Not(HasSubstr(" saved=[")));
  const std::string remat = printed("--after remat");
  EXPECT_THAT(remat, HasSubstr(" saved=["));
  EXPECT_THAT(remat, Not(HasSubstr(" phase backward")));
  const std::string autodiff = printed("--after autodiff");
  EXPECT_THAT(autodiff, HasSubstr(" phase backward"));
  EXPECT_THAT(autodiff, Not(HasSubstr("= adam_update ")));
  const std::string step = printed("--after step");
  EXPECT_THAT(step, HasSubstr("= adam_update "));
  EXPECT_THAT(step, HasSubstr("= fetch_rows "));
  EXPECT_THAT(printed("--after expand"), HasSubstr("= constraint "));
  const std::string partition = printed("--after partition");
  EXPECT_THAT(partition, HasSubstr("= reshard "));
  EXPECT_THAT(partition, Not(HasSubstr("= constraint ")));
  EXPECT_THAT(partition, HasSubstr("= cross_entropy_grad "));
  const std::string fuse = printed("--after fuse");
  EXPECT_THAT(fuse, HasSubstr("= vocab_loss "));
  EXPECT_THAT(fuse, Not(HasSubstr("= cross_entropy")));
}

TEST(GraphCommand, PrintsThePartitionedGraphWithItsChoices) {
  const std::string text = printed("--partitioned");
  EXPECT_TRUE(graph::parse_graph(text).mesh.has_value());
  EXPECT_THAT(text, HasSubstr("\nmesh {"));
  EXPECT_THAT(text, HasSubstr(" as [(fsdp), -"));
  const std::string choices = text.substr(text.find("#\n# What the partitioner chose, and the next best:\n"));
  EXPECT_THAT(choices, HasSubstr("\n# einsum "));
  EXPECT_THAT(choices,
              ::testing::ContainsRegex("\n#   [0-9.]+ ms for \\[[^\n]* -> \\[[^\n]*\n#   [0-9.]+ ms for \\[[^\n]* -> \\["));
  EXPECT_THAT(printed("compile_topology=cpu-1 --partitioned"), ::testing::EndsWith("#\n# The partitioner had no choices.\n"));
}

TEST(GraphCommand, PrintsChoicesAsJson) {
  const auto json = nlohmann::json::parse(printed("--partitioned --json"));
  ASSERT_GT(json["choices"].size(), 10u);
  for (const auto& choice : json["choices"]) {
    EXPECT_LE(choice["chosen"]["seconds"], choice["runner_up"]["seconds"]) << choice["path"];
    EXPECT_NE(choice["chosen"]["operands"].dump() + choice["chosen"]["results"].dump(),
              choice["runner_up"]["operands"].dump() + choice["runner_up"]["results"].dump());
    EXPECT_EQ(choice["op"] == "einsum", !choice["equation"].get<std::string>().empty());
  }
}

TEST(GraphCommand, PrintsThePlan) {
  const std::string text = printed("--plan");
  EXPECT_THAT(text, StartsWith("# default on cpu-2"));
  EXPECT_THAT(text, HasSubstr("\nstate decoder/layers/"));
  EXPECT_THAT(text, HasSubstr(" = collective reshard kind=all-gather "));
  EXPECT_THAT(text, ::testing::ContainsRegex("\n[0-9]+ loop 2 times  # "));
  EXPECT_THAT(text, HasSubstr(" bytes of other buffers at the peak"));
}

TEST(GraphCommand, PrintsThePlanAsJson) {
  const plan::Plan plan = test::planned(kOnTwo).plan;
  const auto json = nlohmann::json::parse(printed("--plan --json"));
  EXPECT_EQ(json["mesh"]["fsdp"], 2);
  EXPECT_EQ(json["state_bytes"], plan::state_bytes(plan));
  EXPECT_EQ(json["peak_bytes"], plan::device_arena(plan).bytes);
  ASSERT_EQ(json["instructions"].size(), plan.instructions.size());
  for (std::size_t i = 0; i < plan.instructions.size(); ++i) {
    const plan::Instruction& of = plan.instructions[i];
    const auto& entry = json["instructions"][i];
    EXPECT_EQ(entry["path"], of.path);
    EXPECT_EQ(entry.value("phase", ""), of.path.empty() ? "" : graph::name_of(of.phase));
    EXPECT_EQ(entry.value("operands", nlohmann::json::array()).size(), of.operands.size());
    for (std::size_t k = 0; k < of.results.size(); ++k) EXPECT_EQ(entry["results"][k]["buffer"], plan.view(of.results[k]).buffer);
    if (of.kind == plan::Instruction::Kind::loop) {
      EXPECT_EQ(entry["count"], of.count);
      EXPECT_EQ(entry["end"], of.other);
    }
  }
  ASSERT_EQ(json["buffers"].size(), plan.buffers.size());
  EXPECT_EQ(json["buffers"][0]["bytes"], plan.buffers[0].bytes);
  ASSERT_EQ(json["ports"].size(), plan.ports.size());
  int turned = 0;
  for (std::size_t i = 0; i < plan.ports.size(); ++i) {
    EXPECT_EQ(json["ports"][i].value("first_dim", 0), plan.ports[i].first) << plan.ports[i].name;
    turned += plan.ports[i].first > 0 ? 1 : 0;
  }
  EXPECT_GT(turned, 0);
}

TEST(GraphCommand, RefusesQuestionsThatDoNotGoTogether) {
  const auto refused = [](const std::string& options) {
    const Outcome made = outcome("graph " + options);
    EXPECT_EQ(made.code, 2);
    return made.err;
  };
  EXPECT_THAT(
      refused("--after slotz"),
      HasSubstr("--after: unknown pass 'slotz', one of model, slots, remat, autodiff, step, expand, partition, stack, fuse, "
                "remat_gradients, single_loops, chain, overlap was expected\n"
                "  fix: --after slots"));
  EXPECT_THAT(refused("--after zzzzzzzz"), HasSubstr("`moesh graph --help` tells what each of them does"));
  EXPECT_THAT(refused("--plan --partitioned"), HasSubstr("--partitioned and --plan are different questions"));
  EXPECT_THAT(refused("--json"), HasSubstr("--json is for --partitioned and --plan: a graph's text is read back as it is"));
  EXPECT_THAT(refused("--after step --json"), HasSubstr("--json is for --partitioned and --plan"));
}

TEST(GraphCommand, MakesNoStepOverPipelineStages) {
  for (const std::string question : {"--after autodiff", "--partitioned", "--plan"}) {
    const Outcome made =
        outcome("graph " + kOnTwo + "ici_fsdp_parallelism=1 ici_pipeline_parallelism=2 base_num_decoder_layers=2 " + question);
    EXPECT_EQ(made.code, 2) << question;
    EXPECT_THAT(made.err, HasSubstr("pipeline stages are laid out (`shardings`, `lint`), but neither planned nor run yet")) << question;
  }
}

TEST(GraphCommand, HelpTellsWhatHoldsBeforeAndAfterEachPass) {
  const Outcome help = outcome("graph --help");
  for (const train::GraphPass& pass : train::graph_passes()) {
    EXPECT_THAT(help.out, ::testing::ContainsRegex("\n  " + std::string(pass.name) + " "));
    EXPECT_THAT(help.out, HasSubstr(std::string(pass.after.substr(0, pass.after.find(' ', 12)))));
  }
}

}  // namespace
}  // namespace moesh::cli
