// Devices spread over processes that communicate through MPI: they give the bits of one process, all of them
// write the checkpoint, and an end is reported once, whichever process it began in.
#include <cstdlib>
#include <filesystem>
#include <thread>

#include <gmock/gmock.h>

#include "store/folder.h"
#include "store/index.h"
#include "tests/process.h"
#include "tests/train/train_support.h"
#include "tests/train/trainer_support.h"
#include "train/company.h"
#include "train/reference_run.h"

namespace moesh::train {
namespace {

using test::Process;
using test::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kMixtral = test::kTinyMixtral +
                             "compile_topology=cpu-4 ici_fsdp_parallelism=2 ici_expert_parallelism=2 num_experts=4 per_device_batch_size=1 "
                             "enable_checkpointing=true checkpoint_period=2 steps=4 log_config=false run_name=r ";

struct Ended {
  int code = 0;
  std::string out, err;
};

// A run in a folder of its own: its losses, evaluations and newest checkpoint.
class SpreadRun {
 public:
  Ended run(const std::string& words) const {
    Process process("train base_output_directory=" + folder_.path() + " " + words, folder_.path());
    const int code = process.wait();
    return {code, process.out(), process.err()};
  }
  std::string folder() const { return folder_.path() + "/r"; }
  std::vector<double> losses() const {
    std::vector<double> losses;
    for (const auto& line : test::metrics_in(folder() + "/metrics.jsonl")) {
      if (line.contains("loss")) losses.push_back(line["loss"]);
    }
    return losses;
  }
  // The losses of the evaluations.
  std::vector<double> found() const {
    std::vector<double> losses;
    for (const auto& line : test::metrics_in(folder() + "/metrics.jsonl")) {
      if (line.contains("eval_step")) losses.push_back(line["eval/avg_loss"]);
    }
    return losses;
  }
  std::string newest() const { return store::checkpoints_at(folder()).front(); }

 private:
  TemporaryFolder folder_;
};

bool are_the_same(const SpreadRun& a, const SpreadRun& b) {
  const test::Outcome differs = test::outcome_of({"checkpoint", "diff", a.newest(), b.newest(), "--json"});
  return differs.out.find("\"values\"") == std::string::npos && differs.out.find("\"tensor\"") == std::string::npos;
}

// Whether to run every recorded layout with more processes, which takes minutes.
bool spreads_all() { return std::getenv("MOESH_SPREAD_ALL") != nullptr; }

class ProcessesSlow : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(test::has_mpi()) << test::kNeedsMpi;
  }
};

TEST_P(ProcessesSlow, HaveTheBitsOfOne) {
  std::string request;
  for (const std::string& word : read_reference_run((test::kRecordedLayouts / (GetParam() + ".json")).string()).request)
    request += word + " ";
  request +=
      "dataset_type=synthetic init_weights_seed=3 enable_checkpointing=true checkpoint_period=1000 save_checkpoint_on_start=false steps=2 "
      "learning_rate_schedule_steps=2 log_config=false run_name=r metrics_file= ";
  const SpreadRun alone;
  const Ended one = alone.run(request);
  ASSERT_EQ(one.code, 0) << one.err;
  for (const char* processes : {"2", "4", "8"}) {
    if (!spreads_all() && std::string(processes) == "8") continue;
    const SpreadRun spread;
    const Ended several = spread.run(request + "--audit --processes " + processes);
    ASSERT_EQ(several.code, 0) << several.err;
    EXPECT_EQ(spread.losses(), alone.losses()) << processes;
    EXPECT_TRUE(are_the_same(alone, spread)) << processes;
  }
}

std::vector<std::string> layouts_to_spread() {
  if (spreads_all()) return test::cases_in(test::kRecordedLayouts);
  return {"mixtral-a2a-fsdp2-ep4", "mixtral-ring-fsdp2-ep4", "mixtral-cap1.25-dispatch-noexpert", "deepseek3-ep-as-cp",
          "mixtral-shard-exp-fsdp4-ep2"};
}

INSTANTIATE_TEST_SUITE_P(Recorded, ProcessesSlow, ::testing::ValuesIn(layouts_to_spread()), test::test_name);

class Together : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(test::has_mpi()) << test::kNeedsMpi;
  }
};

TEST_F(Together, ProcessesPrintOnceAndWriteAPartEach) {
  const SpreadRun run;
  const Ended ended = run.run(kMixtral + "--processes 2 --check-collectives");
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(run.losses().size(), 4u);
  const std::size_t first = ended.out.find("completed step: 0");
  EXPECT_NE(first, std::string::npos);
  EXPECT_EQ(ended.out.find("completed step: 0", first + 1), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(run.newest() + "/data-00000.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(run.newest() + "/data-00001.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(run.newest() + "/part-00001.json"));
  EXPECT_EQ(test::outcome_of({"checkpoint", "check", run.folder()}).code, 0);
}

// Each process reads the parts that it needs, whatever number of processes wrote them.
TEST_F(Together, ProcessesGoOnFromWhatAnyNumberOfThemWrote) {
  const TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 100; ++i) lines += fmt::format("{{\"text\": \"document {}\"}}\n", i);
  const std::string request = kMixtral + "learning_rate_schedule_steps=6 vocab_size=256 dataset_type=jsonl dataset_path=" + folder.write("a.jsonl", lines) + " ";
  const SpreadRun whole;
  ASSERT_EQ(whole.run(request + "steps=6").code, 0);
  for (const auto& [before, after] : {std::pair{"--processes 2", ""}, {"", "--processes 4"}, {"--processes 4", "--processes 2"}}) {
    const SpreadRun run;
    ASSERT_EQ(run.run(request + "steps=3 " + before).code, 0);
    const Ended ended = run.run(request + "steps=6 " + after);
    ASSERT_EQ(ended.code, 0) << ended.err;
    EXPECT_THAT(ended.out, HasSubstr("Goes on after step 2, from "));
    EXPECT_EQ(ended.out.find(" read by the processes in ") != std::string::npos, std::string(after) != "");
    EXPECT_EQ(run.losses(), whole.losses());
    EXPECT_TRUE(are_the_same(whole, run));
  }
}

// Six devices in one, two, three and six processes, with evaluations in between.
TEST_F(Together, ProcessesOfAMeshThatTheyDivideHaveTheBitsOfOne) {
  const std::string request = kMixtral + "compile_topology=cpu-6 ici_fsdp_parallelism=3 ici_expert_parallelism=2 steps=3 eval_interval=2 eval_steps=2 ";
  const SpreadRun one;
  ASSERT_EQ(one.run(request).code, 0);
  for (const int processes : {2, 3, 6}) {
    const SpreadRun run;
    const Ended ended = run.run(request + fmt::format("--processes {}", processes));
    ASSERT_EQ(ended.code, 0) << ended.err;
    EXPECT_EQ(run.losses(), one.losses());
    EXPECT_EQ(run.found(), one.found());
    EXPECT_EQ(run.found().size(), 2u);
    EXPECT_TRUE(are_the_same(one, run));
  }
}

TEST_F(Together, ProcessesNameTheFirstValueThatIsNotFinite) {
  const std::string request = kMixtral + "learning_rate=1000000 warmup_steps_fraction=0 adam_weight_decay=1 steps=6 ";
  const auto told = [](const std::string& err) { return err.substr(std::min(err.size(), err.find("the first value that is not finite"))); };
  const Ended one = SpreadRun().run(request), two = SpreadRun().run(request + "--processes 2");
  EXPECT_EQ(one.code, 1);
  EXPECT_EQ(two.code, 1);
  EXPECT_THAT(one.err, HasSubstr("the first value that is not finite is made by "));
  EXPECT_EQ(told(two.err), told(one.err));
}

TEST_F(Together, ProcessesTellAnErrorOnce) {
  const SpreadRun run;
  const Ended ended = run.run(kMixtral + "base_emb_dim=13 --processes 2");
  EXPECT_EQ(ended.code, 2) << ended.err;
  const std::size_t first = ended.err.find("moesh: error: ");
  EXPECT_NE(first, std::string::npos) << ended.err;
  EXPECT_EQ(ended.err.find("moesh: error: ", first + 1), std::string::npos) << ended.err;
}

TEST_F(Together, ProcessesThatWereStartedOtherwiseAreRefused) {
  const TemporaryFolder folder;
  const std::string words = " train base_output_directory=" + folder.path() + " " + kMixtral;
  const std::string line = fmt::format(
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun -q --oversubscribe -n 1 '{}' {} learning_rate=0.1 : -n 1 '{}' {} "
      "learning_rate=0.2 2>{}/err >/dev/null",
      test::binary(), words, test::binary(), words, folder.path());
  EXPECT_EQ(test::shell(line), 2);
  EXPECT_THAT(test::read_text(folder.path() + "/err"), HasSubstr("learning_rate is 0.2 in process 1, and 0.1 in process 0"));
}

// A process that is stopped is given up by those that wait for it, also if it stops in the middle of a
// message: large messages are sent in pieces.
TEST_F(Together, AProcessThatDoesNotAnswerIsGivenUp) {
  for (const std::string sizes : {"", "base_emb_dim=96 base_mlp_dim=512 base_moe_mlp_dim=512 "}) {
    const TemporaryFolder folder;
    Process process("train base_output_directory=" + folder.path() + " " + kMixtral + sizes +
                        "steps=1000000 checkpoint_period=1000000 collective_timeout=2 --processes 2",
                    folder.path());
    ASSERT_TRUE(test::wait_until([&] { return process.out().find("completed step: 3") != std::string::npos; })) << process.err();
    ASSERT_EQ(::kill(test::process_of(folder.path(), 1), SIGSTOP), 0);
    EXPECT_NE(process.wait(), 0);
    EXPECT_THAT(process.err(), AllOf(HasSubstr(" has sent nothing for "),
                                     HasSubstr("or raise collective_timeout; the run can go on from its newest whole checkpoint, if it has one")));
  }
}

TEST_F(Together, AProcessThatIsKilledEndsAllAndTheRunIsStartedAgain) {
  const SpreadRun whole;
  const std::string request = kMixtral + "steps=400 checkpoint_period=20 ";
  ASSERT_EQ(whole.run(request).code, 0);
  const TemporaryFolder folder;
  Process process("train base_output_directory=" + folder.path() + " " + request + "--processes 2 --restarts 2", folder.path());
  ASSERT_TRUE(test::wait_until([&] { return process.out().find("completed step: 60") != std::string::npos; })) << process.err();
  ASSERT_EQ(::kill(test::process_of(folder.path(), 1), SIGKILL), 0);
  EXPECT_EQ(process.wait(), 0) << process.err();
  EXPECT_THAT(process.err(), AllOf(HasSubstr("process 1 of the run was ended by signal 9 (Killed)"),
                                   HasSubstr("such as a machine that ran out of memory; the run can go on from its newest whole checkpoint, if"),
                                   HasSubstr("it is started again from its newest checkpoint, 1 of 2 times")));
  const test::Outcome differs =
      test::outcome_of({"checkpoint", "diff", whole.newest(), store::checkpoints_at(folder.path() + "/r").front()});
  EXPECT_THAT(differs.out, Not(HasSubstr("relative"))) << differs.out;
}

TEST_F(Together, ASignalEndsAllProcessesAfterTheirStep) {
  const TemporaryFolder folder;
  Process process("train base_output_directory=" + folder.path() + " " + kMixtral + "steps=1000000 checkpoint_period=1000000 --processes 2",
                  folder.path());
  ASSERT_TRUE(test::wait_until([&] { return process.out().find("completed step: 3") != std::string::npos; })) << process.err();
  process.send(SIGTERM);
  EXPECT_EQ(process.wait(), 143) << process.err();
  EXPECT_THAT(process.out(), HasSubstr("interrupted: "));
  const std::vector<std::int64_t> steps = store::steps_in(folder.path() + "/r/checkpoints");
  ASSERT_FALSE(steps.empty());
  EXPECT_GE(steps.back(), 3);
}

TEST_F(Together, ProcessesAreNoOwners) {
  EXPECT_THAT(SpreadRun().run(kMixtral + "owners=2 --processes 2").err, HasSubstr("owners=2, and 2 processes"));
  EXPECT_THAT(SpreadRun().run(kMixtral + "compile_topology=cpu-1 ici_fsdp_parallelism=1 ici_expert_parallelism=1 --processes 2").err,
              HasSubstr("the processes of the run: 2 processes, and the mesh has 1 device\n  fix: as many as there are devices at most"));
}

// The copied binary has no MPI module beside it.
TEST_F(Together, ProcessesNeedMpi) {
  const TemporaryFolder folder;
  std::filesystem::copy(test::binary(), folder.path() + "/alone");
  EXPECT_EQ(test::shell("OMPI_COMM_WORLD_SIZE=2 " + folder.path() + "/alone train steps=1 2>" + folder.path() + "/err"), 2);
  EXPECT_THAT(test::read_text(folder.path() + "/err"), HasSubstr("this moesh cannot join other processes: no libmoesh_mpi.so beside the program"));
  EXPECT_EQ(test::shell(folder.path() + "/alone train steps=1 --processes 2 2>" + folder.path() + "/err"), 2);
  const std::string told = test::read_text(folder.path() + "/err");
  EXPECT_THAT(told, HasSubstr("no libmoesh_mpi.so beside the program"));
  EXPECT_EQ(told.find("error: "), told.rfind("error: ")) << "it is told before several processes would each tell it";
}

// A library that is there but cannot be used says why, and that it is there.
TEST_F(Together, ProcessesNeedALibraryThatCanBeUsed) {
  const TemporaryFolder folder;
  const std::string module = folder.path() + "/libmoesh_mpi.so";
  const std::filesystem::path built = std::filesystem::path(test::binary()).parent_path();
  std::filesystem::copy(test::binary(), folder.path() + "/alone");
  const auto refused = [&] {
    EXPECT_EQ(test::shell("OMPI_COMM_WORLD_SIZE=2 " + folder.path() + "/alone train steps=1 2>" + folder.path() + "/err"), 1);
    return test::read_text(folder.path() + "/err");
  };
  std::filesystem::copy(built / "libmoesh_http.so", module);
  EXPECT_THAT(refused(), AllOf(HasSubstr("several processes: the library that joins other processes cannot be used: " + module),
                               HasSubstr("undefined symbol: moesh_join_processes")));
  std::filesystem::resize_file(module, 1);
  EXPECT_THAT(refused(), AllOf(HasSubstr("file too short"), Not(HasSubstr("beside the program"))));
}

TEST(Processes, AreStartedByMpirun) {
  const TemporaryFolder folder;
  EXPECT_EQ(test::shell(fmt::format("PATH=/nowhere {} train --processes 2 2>{}/err", test::binary(), folder.path())), 2);
  EXPECT_THAT(test::read_text(folder.path() + "/err"), HasSubstr("mpirun is not there"));
}

TEST(Processes, AreNotStartedByThoseThatWereStarted) {
  const test::Variable size("OMPI_COMM_WORLD_SIZE", "2");
  EXPECT_EQ(transport::launched().count, 2);
  EXPECT_THAT(test::outcome_of({"train", "--processes", "2"}).err, HasSubstr("--processes, in a process that mpirun or srun has started"));
}

TEST(Processes, ThatAreApartAreNamedWithTheirPlaces) {
  EXPECT_THAT(test::message_of([] { transport::fail_apart(0, "a", 3, "b"); }), HasSubstr("process 0 is at a, process 3 at b"));
}

// The first of two processes; the other one always gives the same answer.
class Two : public transport::Processes {
 public:
  explicit Two(std::string other) : other_(std::move(other)) {}
  int count() const override { return 2; }
  int self() const override { return 0; }
  transport::Endpoint& wire() override { throw std::logic_error("not used"); }
  std::vector<std::string> all_say(const std::string& words, const std::string&) override { return {words, other_}; }
  void end_all(int, const std::string&) override { throw std::logic_error("not used"); }
  void leave() override {}
  void set_timeout(double) override {}

 private:
  std::string other_;
};

TEST(Processes, SumWhatEachHas) {
  Two processes("5 -1 0 ");
  EXPECT_EQ(processes.sums({1, 2, 3}, ""), (std::vector<std::int64_t>{6, 1, 3}));
}

TEST(Company, NamesWhatIsNotTheSameInAll) {
  const auto refusal = [](const std::string& other) {
    Two processes(other);
    return test::message_of([&] { check_same({&processes}, {{"steps", "4"}, {"the plan", "a"}}); });
  };
  EXPECT_EQ(refusal("steps\x1f" "4\x1ethe plan\x1f" "a\x1e"), "no error");
  EXPECT_THAT(refusal("steps\x1f" "5\x1ethe plan\x1f" "a\x1e"), HasSubstr("steps is 5 in process 1, and 4 in process 0"));
  EXPECT_THAT(refusal("the plan\x1f" "a\x1e"), HasSubstr("steps is not set in process 1, and 4 in process 0"));
  EXPECT_THAT(refusal("x\x1f" "1\x1esteps\x1f" "4\x1ethe plan\x1f" "a\x1e"), HasSubstr("x is 1 in process 1, and not set in process 0"));
}

}  // namespace
}  // namespace moesh::train
