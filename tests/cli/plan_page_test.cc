// `moesh compile --html`: planned steps on one HTML page.
#include <cmath>
#include <filesystem>
#include <regex>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "forecast/report.h"
#include "tests/cli/outcome.h"
#include "tests/pages.h"
#include "tests/paths.h"

namespace moesh::cli {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kMoe =
    "model_name=mixtral-8x7b override_model_config=true base_num_decoder_layers=5 max_target_length=512 per_device_batch_size=2 "
    "compile_topology=v5p-16 ici_fsdp_parallelism=2 ici_expert_parallelism=4";
constexpr const char* kDense = "model_name=llama2-7b compile_topology=v5p-16 ici_fsdp_parallelism=8";

class PlanPage : public ::testing::Test {
 protected:
  // Returns the page of a request; what the command prints is kept in said_.
  std::string page_of(const std::string& request) {
    said_ = outcome("compile " + request + " --html page.html");
    EXPECT_EQ(said_.code, 0) << said_.err;
    return test::read_text("page.html");
  }
  static Json json_of(const std::string& request) { return Json::parse(outcome("compile --json " + request).out); }

  Outcome said_;

 private:
  test::TemporaryFolder folder_;
  test::WorkingFolder here_{folder_.path()};
};

std::int64_t count_of(const std::string& text, const std::string& part) {
  std::int64_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

void expect_sound(const std::string& page) {
  test::expect_well_formed(page);
  for (const char* part : {"memory", "schedule", "mesh", "collectives", "tensors"}) EXPECT_THAT(page, HasSubstr(fmt::format("<section id=\"{}\">", part)));
  for (const char* outside : {"http://", "https://", "src=", "@import", "url("}) EXPECT_THAT(page, Not(HasSubstr(outside)));
  EXPECT_EQ(count_of(page, "<script>"), 1);
  for (const char* odd : {"nan", "inf\"", "NaN", "=\"-1\""}) EXPECT_FALSE(std::regex_search(page, std::regex(fmt::format("(\"|[A-Z ,]){}", odd)))) << odd;
}

TEST_F(PlanPage, IsSoundForStepsOfAllKinds) {
  const std::string dense(kDense), moe(kMoe);
  for (const std::string& request : {dense, moe, dense + " scan_layers=false override_model_config=true base_num_decoder_layers=2",
                                     std::string("model_name=qwen3-0.6b compile_topology=h100-1"),
                                     std::string("model_name=llama2-7b compile_topology=v5p-16 compile_topology_num_slices=4 dcn_data_parallelism=2 "
                                                 "dcn_fsdp_parallelism=2 ici_fsdp_parallelism=4 ici_tensor_parallelism=2"),
                                     moe + " gradient_accumulation_steps=4 per_device_batch_size=4"}) {
    SCOPED_TRACE(request);
    const std::string page = page_of(request);
    expect_sound(page);
    EXPECT_THAT(said_.out, HasSubstr("\nThe page is in page.html: "));
    EXPECT_THAT(page, AllOf(HasSubstr("One layer of the forward pass"), HasSubstr("One layer of the backward pass"), HasSubstr("<small>fits: ")));
    EXPECT_THAT(page, HasSubstr("<pre class=\"command\">moesh compile " + request + "</pre>"));
  }
}

TEST_F(PlanPage, HasTheFiguresOfTheJson) {
  const std::string page = page_of(kMoe);
  const Json json = json_of(kMoe);
  const auto words = [](const Json& bytes) { return human_bytes(bytes.get<double>()); };
  const Json& memory = json["memory_per_device"];
  EXPECT_THAT(page, HasSubstr(fmt::format("<small>fits: {} of {}.", words(memory["peak"]), words(memory["usable"]))));
  EXPECT_THAT(page, HasSubstr(fmt::format("<strong>{}</strong>", human_seconds(json["seconds_per_step"]))));
  EXPECT_THAT(page, HasSubstr(fmt::format("<strong>{}</strong>", human_seconds(json["exposed_seconds"]))));
  EXPECT_THAT(page, HasSubstr(fmt::format("<strong>{}</strong>", with_commas(std::llround(json["tokens_per_second_per_device"].get<double>())))));
  EXPECT_THAT(page, HasSubstr(fmt::format("<strong>{:.1f}%</strong>", 100 * json["mfu"].get<double>())));
  for (const auto& [component, bytes] : memory["components"].items()) {
    if (bytes.get<std::int64_t>() == 0) continue;
    EXPECT_THAT(page, HasSubstr(fmt::format("<td>{}</td><td class=\"n\">{}</td>", component, words(bytes))));
  }
  EXPECT_THAT(page, HasSubstr("The peak is " + memory["peak_at"].get<std::string>().substr(0, 20)));
  std::int64_t sent = 0;
  for (const Json& one : json["collectives"]["list"]) {
    EXPECT_THAT(page, HasSubstr(one["name"].get<std::string>()));
    sent += one["count"].get<std::int64_t>();
  }
  EXPECT_THAT(page, HasSubstr("<tr><td>all</td><td></td><td class=\"n\">" + with_commas(sent)));
  EXPECT_THAT(page, HasSubstr(fmt::format("<tr><td>all-gather</td><td>expert</td><td class=\"n\">{}</td>",
                                          json["collectives"]["totals"]["all-gather"]["by_axes"]["expert"]["count"].get<int>())));
}

TEST_F(PlanPage, TellsOfEachTensorWhyItLiesThere) {
  const std::string page = page_of(kMoe);
  const Json shardings = Json::parse(outcome(std::string("shardings --json ") + kMoe).out);
  for (const Json& parameter : shardings["params"]) EXPECT_THAT(page, HasSubstr("<summary><b>" + parameter["path"].get<std::string>() + "</b>"));
  EXPECT_THAT(page, AllOf(HasSubstr("<tr class=\"won\"><td>exp -&gt; expert</td><td>takes dim 0 (exp): 4 shards"), HasSubstr("<tr class=\"lost\">"),
                          HasSubstr("<b>mu/decoder/layers/MoeBlock_0/wi_0</b>"), HasSubstr("As its parameter decoder/layers/MoeBlock_0/wi_0.")));
}

TEST_F(PlanPage, SetsTwoLayoutsSideBySide) {
  const std::string request = std::string(kMoe) + " sparse_matmul=false capacity_factor=1.25";
  const std::string page = page_of(request + " --diff custom_mesh_and_rule=ep-tp");
  expect_sound(page);
  EXPECT_THAT(said_.out, AllOf(HasSubstr("collectives that differ"), HasSubstr("\nThe page is in page.html: ")));
  EXPECT_THAT(page, AllOf(HasSubstr("Before, and after custom_mesh_and_rule=ep-tp."), HasSubstr("</i>before</span>"), HasSubstr("</i>after</span>"), HasSubstr("<em>\u00d7 ")));
  EXPECT_THAT(page, HasSubstr("<pre class=\"command\">moesh compile " + request + " custom_mesh_and_rule=ep-tp</pre>"));
  const std::size_t last_other = page.rfind("<details class=\"t other\">"), first_alike = page.find("<details class=\"t\">");
  ASSERT_NE(last_other, std::string::npos);
  EXPECT_LT(last_other, first_alike) << "those that differ stand first";
  const std::string same = page_of(std::string(kMoe) + " --diff steps=3");
  EXPECT_THAT(same, AllOf(HasSubstr("<p>All lie alike.</p>"), Not(HasSubstr("class=\"t other\""))));
}

// Machines differ in the links that their plans have lanes for.
TEST_F(PlanPage, GivesEachPlanTheLanesOfItsOwnLinks) {
  const std::string page = page_of(std::string(kDense) + " compile_topology_num_slices=2 dcn_data_parallelism=2 --diff compile_topology=h100-8 "
                                                         "compile_topology_num_slices=1 dcn_data_parallelism=1");
  expect_sound(page);
  const auto lanes = [&](const std::string& link) { return count_of(page, ">" + link + "</text>"); };
  EXPECT_EQ(lanes("ici"), 3) << "of the whole step and of a layer of both passes";
  EXPECT_EQ(lanes("dcn"), 3);
  EXPECT_EQ(lanes("nvlink"), 3);
  EXPECT_EQ(lanes("infiniband"), 0);
}

TEST_F(PlanPage, TellsOfMomentsWhatTheyLieOverBesides) {
  const std::string page = page_of("model_name=llama2-7b compile_topology=v5p-16 ici_data_parallelism=2 ici_fsdp_parallelism=4 shard_optimizer_over_data=true");
  EXPECT_THAT(page, AllOf(HasSubstr("Then data is put first in dim "), Not(HasSubstr("peeling"))));
}

TEST_F(PlanPage, NamesTheCommandThatTellsOfItsCollectives) {
  const std::string decoding = std::string(kDense) + " per_device_batch_size=1 max_target_length=1024";
  EXPECT_THAT(page_of(kDense), HasSubstr("<code>moesh why c1 ...</code>"));
  EXPECT_THAT(page_of("--decode " + decoding), HasSubstr("<code>moesh why c1 --decode ...</code>"));
  EXPECT_THAT(page_of("--prefill " + decoding), HasSubstr("<code>moesh why c1 --prefill ...</code>"));
}

TEST_F(PlanPage, SaysWhatMakesAStepFit) {
  const std::string page = page_of("model_name=mixtral-8x7b compile_topology=v5p-16 ici_fsdp_parallelism=2 ici_expert_parallelism=4 per_device_batch_size=4");
  expect_sound(page);
  EXPECT_THAT(page, AllOf(HasSubstr(" missing</strong>"), HasSubstr("<small>does not fit: "), HasSubstr("<th>what makes it fit</th>"),
                          HasSubstr("<td>num_moe_token_chunks=2 (fits narrowly)")));
}

TEST_F(PlanPage, MakesTextOfNamesHarmless) {
  const std::filesystem::path model = "a<script>b";
  std::filesystem::create_directory(model);
  std::filesystem::copy(test::source_folder() / "tests/golden/hf/llama/config.json", model / "config.json");
  const Outcome made = outcome_of({"compile", "model_name=a<script>b", "compile_topology=cpu-2", "ici_fsdp_parallelism=2", "max_target_length=8", "run_name='&\"", "--html", "page.html"});
  ASSERT_EQ(made.code, 0) << made.err;
  const std::string page = test::read_text("page.html");
  expect_sound(page);
  EXPECT_THAT(page, AllOf(HasSubstr("a&lt;script&gt;b on cpu-2"), HasSubstr("'run_name='\\''&amp;&quot;'")));
}

TEST_F(PlanPage, IsTheSameEachTime) { EXPECT_EQ(page_of(kMoe), page_of(kMoe)); }

TEST_F(PlanPage, StaysSmall) {
  const std::string page = page_of("model_name=deepseek3-671b compile_topology=tpu7x-256 ici_fsdp_parallelism=32 ici_expert_parallelism=8 per_device_batch_size=4");
  EXPECT_LT(page.size(), 1500u * 1024);
}

TEST_F(PlanPage, ComesBesideJsonAndAPlan) {
  const Outcome made = outcome(std::string("compile --json --html page.html --save-plan a.plan ") + kDense);
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_TRUE(Json::parse(made.out).contains("fits"));
  expect_sound(test::read_text("page.html"));
  EXPECT_TRUE(std::filesystem::exists("a.plan"));
}

TEST_F(PlanPage, IsRefusedWhereItCannotBeWritten) {
  const std::string request = std::string("compile ") + kDense;
  const Outcome nowhere = outcome(request + " --html no/such/folder.html");
  EXPECT_EQ(nowhere.code, 1);
  EXPECT_THAT(nowhere.err, AllOf(HasSubstr("no/such/folder.html: the file cannot be written: No such file or directory"), HasSubstr("--html FILE names one that can be written")));
  const Outcome full = outcome(request + " --html /dev/full");
  EXPECT_EQ(full.code, 2);
  EXPECT_THAT(full.err, HasSubstr("/dev/full: something else than a file lies there"));
  const Outcome twice = outcome(request + " --html a.html --save-plan a.html");
  EXPECT_EQ(twice.code, 2);
  EXPECT_THAT(twice.err, HasSubstr("--save-plan and --html both write a.html\n  fix: give each a file of its own"));
  EXPECT_FALSE(std::filesystem::exists("a.html"));
  const Outcome nothing = outcome(request + " --html");
  EXPECT_EQ(nothing.code, 2);
}

}  // namespace
}  // namespace moesh::cli
