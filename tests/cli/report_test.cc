// `moesh report`, and the page that a run writes at its end.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/outcome.h"
#include "tests/pages.h"
#include "tests/train/trainer_support.h"

namespace moesh::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kTrain = "train " + test::kTinyMixtral + " compile_topology=cpu-2 ici_fsdp_parallelism=2 log_config=false dataset_type=synthetic ";

class RunPage : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const { folder_.write(name, text); }
  static std::string page(const std::string& path) { return test::read_text(path); }

 private:
  test::TemporaryFolder folder_;
  test::WorkingFolder here_{folder_.path()};
};

TEST_F(RunPage, IsAPageThatARunLeavesAtItsEnd) {
  ASSERT_EQ(outcome(kTrain + "run_name=a steps=4 eval_interval=2 eval_steps=1").code, 0);
  const std::string made = page("moesh_output/a/report.html");
  test::expect_well_formed(made);
  EXPECT_THAT(made, AllOf(HasSubstr("<title>a</title>"), HasSubstr("loss; dots: of evaluations"), HasSubstr("polyline class=\"run0\""), HasSubstr("circle class=\"run0\"")));
  EXPECT_THAT(made, AllOf(HasSubstr("Experts of "), HasSubstr("data:image/png;base64,"), HasSubstr("all-gather"), HasSubstr("What devices of ")));
  EXPECT_THAT(made, AllOf(HasSubstr("<td>layout</td><td class=\"n\">mixtral-8x7b on cpu-2: 2 devices as fsdp=2, default rules</td>"),
                          HasSubstr("<p>mixtral-8x7b on cpu-2: 2 devices as fsdp=2, default rules. In all steps together; bytes are those that all "
                                    "devices together got from others.</p>"), HasSubstr("bytes of all devices")));
  EXPECT_THAT(made, AllOf(HasSubstr("<td>num_experts</td>"), HasSubstr("<td>state</td><td class=\"n\">ended</td>")));
  EXPECT_THAT(made, AllOf(Not(HasSubstr("<script")), Not(HasSubstr("http://")), Not(HasSubstr("https://"))));
  ASSERT_EQ(outcome(kTrain + "steps=2 metrics_file=m.jsonl run_name=b").code, 0);
  EXPECT_FALSE(std::filesystem::exists("moesh_output/b")) << "a run without a folder leaves none";
}

TEST_F(RunPage, ShowsSeveralRunsWithTheSettingsThatDiffer) {
  ASSERT_EQ(outcome(kTrain + "run_name=a steps=2").code, 0);
  ASSERT_EQ(outcome(kTrain + "run_name=b steps=3 learning_rate=0.5").code, 0);
  const Outcome made = outcome("report moesh_output/a moesh_output/b --to both.html");
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("both.html: "));
  test::expect_well_formed(page("both.html"));
  EXPECT_THAT(page("both.html"), AllOf(HasSubstr("<title>a, b</title>"), HasSubstr("polyline class=\"run1\""), HasSubstr("Settings that differ"),
                                       HasSubstr("<td>learning_rate</td>"), Not(HasSubstr("<td>num_experts</td>"))));
}

TEST_F(RunPage, ReadsRunsThatWereKilledGoOnOrNeverMadeAStep) {
  std::filesystem::create_directory("a<b>&c");
  const std::string begin = "{\"run\": {\"moesh\": \"0.1.0\", \"began\": \"now\", \"settings\": {\"steps\": \"9\", \"run_name\": \"<x>\"}}}\n";
  write("a<b>&c/metrics.jsonl", begin + "{\"step\": 0, \"loss\": null, \"seconds\": 0}\n{\"step\": 1, \"loss\": 2, \"moe\": {\"tokens\": [[0, 0]]}}\n{\"st");
  ASSERT_EQ(outcome_of({"report", "a<b>&c"}).code, 0);
  const std::string made = page("a<b>&c/report.html");
  test::expect_well_formed(made);
  EXPECT_THAT(made, AllOf(HasSubstr("a&lt;b&gt;&amp;c"), HasSubstr("ended without its last lines"), HasSubstr("&lt;x&gt;"), Not(HasSubstr("<x>"))));
  write("metrics.jsonl", begin);
  ASSERT_EQ(outcome("report . --to r.html").code, 0);
  test::expect_well_formed(page("r.html"));
  EXPECT_THAT(page("r.html"), Not(HasSubstr("<svg")));
}

// The expert loads of different steps do not match in shape, as in a file that was edited by hand.
TEST_F(RunPage, LeavesOutWhatDoesNotFit) {
  const std::string begin = "{\"run\": {\"moesh\": \"0.1.0\"}}\n";
  write("metrics.jsonl", begin + "{\"step\": 0, \"loss\": 1, \"moe\": {\"tokens\": [[1, 2], [3, 4]]}}\n{\"step\": 1, \"loss\": 1, \"moe\": {\"tokens\": [[1]]}}\n"
                                 "{\"step\": 2, \"loss\": 1, \"moe\": {\"tokens\": []}}\n{\"run\": {\"ended\": 1, \"collectives\": [{}, {\"runs\": 3}]}}\n");
  ASSERT_EQ(outcome("report metrics.jsonl").code, 0);
  test::expect_well_formed(page("report.html"));
}

TEST_F(RunPage, RefusesWhatIsNoRun) {
  EXPECT_THAT(outcome("report").err, HasSubstr("of which run?"));
  EXPECT_THAT(outcome("report a steps=2").err, HasSubstr("'steps=2' changes nothing of a report"));
  EXPECT_THAT(outcome("report nowhere").err, HasSubstr("nowhere"));
  EXPECT_NE(outcome("report nowhere").code, 0);
}

}  // namespace
}  // namespace moesh::cli
