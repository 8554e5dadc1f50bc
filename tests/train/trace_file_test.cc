// The trace that `profiler=` writes, checked on whole runs.
#include <csignal>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/outcome.h"
#include "tests/process.h"
#include "tests/support.h"
#include "tests/train/trainer_support.h"

namespace moesh::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kTracedRun = "train " + test::kTinyModel + "compile_topology=cpu-2 ici_fsdp_parallelism=2 run_name=r base_output_directory=out profiler=xplane ";

TEST(TraceFile, IsNotThereForNoSteps) {
  const test::TemporaryFolder folder;
  const test::WorkingFolder here(folder.path());
  const cli::Outcome made = cli::outcome(kTracedRun + "steps=3 profiler_steps=0");
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("No step was traced, as profiler_steps=0 asks.\n"));
  EXPECT_FALSE(std::filesystem::exists("out/r/metrics.trace.json"));
}

TEST(TraceFile, HasTheStepsThatAreAskedForAndWhatRanInThem) {
  const test::TemporaryFolder folder;
  const test::WorkingFolder here(folder.path());
  const cli::Outcome made = cli::outcome(kTracedRun + "steps=4 skip_first_n_steps_for_profiler=1 profiler_steps=2");
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("Trace of steps 1 to 2, for chrome://tracing or ui.perfetto.dev: out/r/metrics.trace.json\n"));
  std::ifstream file("out/r/metrics.trace.json");
  const auto written = nlohmann::json::parse(file);
  EXPECT_FALSE(written["otherData"]["moesh"].get<std::string>().empty());
  std::vector<std::string> steps;
  double step_ends = 0, first_begins = -1;
  int kernels = 0, collectives = 0, planned = 0;
  for (const auto& event : written["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const double begin = event["ts"], end = begin + event["dur"].get<double>();
    const int process = event["pid"], thread = event["tid"];
    if (first_begins < 0) first_begins = begin;
    if (thread == 0) {
      steps.push_back(event["name"]);
      EXPECT_GE(begin, step_ends) << "steps stand one after the other";
      step_ends = end;
      continue;
    }
    (process == 2 ? planned : thread == 1 ? kernels : collectives) += 1;
    if (process == 1) {
      EXPECT_LE(end, step_ends + 1) << event["name"];
      EXPECT_TRUE(event["args"].contains("planned_us") && event["args"].contains("instruction")) << event;
    }
  }
  EXPECT_EQ(steps, (std::vector<std::string>{"step 1", "step 2"}));
  EXPECT_EQ(first_begins, 0);
  EXPECT_GT(kernels, 100);
  EXPECT_GT(collectives, 10);
  EXPECT_EQ(planned, kernels + collectives);
}

// As in MaxText, the steps that are left out are the first ones of each run, also of one that goes on.
TEST(TraceFile, CountsFromTheFirstStepOfARunThatGoesOn) {
  const test::TemporaryFolder folder;
  const test::WorkingFolder here(folder.path());
  const std::string run = kTracedRun + "enable_checkpointing=true skip_first_n_steps_for_profiler=1 profiler_steps=2 ";
  EXPECT_THAT(cli::outcome(run + "steps=3").out, HasSubstr("Trace of steps 1 to 2, "));
  EXPECT_THAT(cli::outcome(run + "steps=6").out, HasSubstr("Trace of steps 4 to 5, "));
  EXPECT_THAT(test::read_text("out/r/metrics.trace.json"), AllOf(HasSubstr("\"step 4\""), HasSubstr("\"step 5\"")));
  EXPECT_THAT(cli::outcome(run + "steps=7").out, HasSubstr("No step was traced: the run ended before step 7, "));
}

TEST(TraceFile, IsThereOnceTheLastStepIsTraced) {
  const test::TemporaryFolder folder;
  const std::string runs = folder.path() + "/runs", path = runs + "/r/metrics.trace.json";
  test::Process process(kTracedRun + "steps=1000000 profiler_steps=2 base_output_directory=" + runs, folder.path());
  EXPECT_TRUE(test::wait_until([&] { return std::filesystem::exists(path); })) << process.err();
  process.send(SIGKILL);
  process.wait();
  EXPECT_THAT(test::read_text(path), AllOf(HasSubstr("\"step 1\""), HasSubstr("\"step 2\"")));
}

TEST(TraceFile, IsLeftByARunThatFailsWithinTheStepsThatAreTraced) {
  const test::TemporaryFolder folder;
  const test::WorkingFolder here(folder.path());
  const cli::Outcome failed = cli::outcome(kTracedRun + "steps=30 learning_rate=1000000 warmup_steps_fraction=0 adam_weight_decay=1 "
                                                        "skip_first_n_steps_for_profiler=0 profiler_steps=1000");
  EXPECT_EQ(failed.code, 1);
  EXPECT_THAT(failed.err, HasSubstr("; the first value that is not finite is "));
  EXPECT_THAT(test::read_text("out/r/metrics.trace.json"), HasSubstr("\"step 0\""));
}

// A run whose trace cannot be written ends as one whose metrics cannot be.
TEST(TraceFile, ThatCannotBeWrittenEndsTheRunWithACheckpoint) {
  const test::TemporaryFolder folder;
  const std::string runs = folder.path() + "/runs";
  test::Process process(kTracedRun + "enable_checkpointing=true checkpoint_period=1000000 steps=1000000 base_output_directory=" + runs +
                            " skip_first_n_steps_for_profiler=1000",
                        folder.path());
  ASSERT_TRUE(test::wait_until([&] { return std::filesystem::exists(runs + "/r/checkpoints/0"); })) << process.err();
  std::filesystem::create_directory(runs + "/r/metrics.trace.json");
  EXPECT_EQ(process.wait(), 2) << process.err();
  EXPECT_THAT(process.err(), AllOf(HasSubstr("something else than a file lies there"), HasSubstr("saved checkpoint: ")));
}

TEST(TraceFile, SaysWhereNothingWasTraced) {
  const test::TemporaryFolder folder;
  const test::WorkingFolder here(folder.path());
  const cli::Outcome made = cli::outcome(kTracedRun + "steps=2 skip_first_n_steps_for_profiler=7");
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("No step was traced: the run ended before step 7, see skip_first_n_steps_for_profiler.\n"));
  EXPECT_FALSE(std::filesystem::exists("out/r/metrics.trace.json"));
}

TEST(TraceFile, TakesThePlaceOfATraceAndOfNothingElse) {
  const test::TemporaryFolder folder;
  const test::WorkingFolder here(folder.path());
  for (int run = 0; run < 2; ++run) EXPECT_EQ(cli::outcome(kTracedRun + "steps=2").code, 0);
  std::ofstream("out/r/metrics.trace.json") << "mine, and longer than what a trace of moesh's begins with";
  const cli::Outcome refused = cli::outcome(kTracedRun + "steps=2");
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("out/r/metrics.trace.json: this file is no trace of moesh's, so it is not overwritten"),
                                 HasSubstr("move it, or name another metrics_file")));
}

}  // namespace
}  // namespace moesh::train
