// What goes wrong between two steps ends a run with a checkpoint of what was done.
#include <csignal>
#include <filesystem>
#include <regex>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "store/folder.h"
#include "tests/process.h"
#include "tests/train/train_support.h"
#include "tests/train/trainer_support.h"

namespace moesh::train {
namespace {

using test::Process;
using test::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;

// An endless run that would save only its last step.
const std::string kEndless =
    "train " + test::kTinyMixtral +
    "compile_topology=cpu-2 ici_fsdp_parallelism=2 per_device_batch_size=1 enable_checkpointing=true checkpoint_period=1000000000 "
    "save_checkpoint_on_start=false log_config=false run_name=r steps=1000000000 ";

class Failing : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { ASSERT_TRUE(GetParam() == 1 || test::has_mpi()) << test::kNeedsMpi; }

  std::string command(const std::string& more) const {
    const std::string spread = GetParam() == 1 ? "" : fmt::format(" --processes {}", GetParam());
    return kEndless + "base_output_directory=" + folder.path() + " " + more + spread;
  }
  void wait_for(const Process& process, const std::string& words) const {
    ASSERT_TRUE(test::wait_until([&] { return process.out().find(words) != std::string::npos; })) << process.err();
  }
  void expect_saved(const std::string& err) const {
    const std::vector<std::int64_t> steps = store::steps_in(folder.path() + "/r/checkpoints");
    ASSERT_EQ(steps.size(), 1u) << err;
    EXPECT_GE(steps.front(), 3);
    EXPECT_THAT(err, HasSubstr(fmt::format("saved checkpoint: {}/r/checkpoints/{}", folder.path(), steps.front())));
  }

  TemporaryFolder folder;
};

TEST_P(Failing, MetricsCostNoStep) {
  const std::string pipe = folder.path() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  Process process(command("metrics_file=" + pipe), folder.path());
  wait_for(process, "completed step: 3");
  ::close(reader);
  EXPECT_EQ(process.wait(), 1);
  EXPECT_THAT(process.err(), HasSubstr("the metrics could not be written: Broken pipe"));
  expect_saved(process.err());
}

TEST_P(Failing, AFolderThatIsRemovedCostsNoStep) {
  Process process(command(""), folder.path());
  wait_for(process, "completed step: 3");
  std::filesystem::rename(folder.path() + "/r", folder.path() + "/gone");  // at once, so that no file comes into it meanwhile
  std::filesystem::remove_all(folder.path() + "/gone");
  EXPECT_EQ(process.wait(), 1);
  EXPECT_THAT(process.err(), HasSubstr("r/metrics.jsonl: the metrics could not be written: the file has been removed"));
  expect_saved(process.err());
}

TEST_P(Failing, DataCostNoStep) {
  for (const char* which : {"train", "eval"}) {
    for (const char* earlier : {"/r", "/out"}) std::filesystem::remove_all(folder.path() + earlier);
    for (const char* name : {"train", "eval"}) {
      std::string text;
      for (int i = 0; i < 5000; ++i) text += fmt::format("line {} of {}\n", i, name);
      folder.write(std::string(name) + ".txt", text);
    }
    Process process(command(fmt::format("vocab_size=256 dataset_type=text dataset_path={0}/train.txt eval_dataset_path={0}/eval.txt "
                                        "eval_interval=1 eval_steps=2",
                                        folder.path())),
                    folder.path());
    wait_for(process, "Completed eval after train step 3");
    std::filesystem::resize_file(folder.path() + "/" + which + ".txt", 0);
    EXPECT_EQ(process.wait(), 1) << process.err();
    EXPECT_THAT(process.err(), HasSubstr(std::string(which) + ".txt: the file was cut short or replaced while the run read it"));
    expect_saved(process.err());
  }
}

INSTANTIATE_TEST_SUITE_P(Processes, Failing, ::testing::Values(1, 2));

// What `moesh train | head` does.
TEST(Train, ThatNobodyReadsEndsWithACheckpointAndSaysSo) {
  const TemporaryFolder folder;
  const std::string at = folder.path();
  test::shell(fmt::format("{{ {} {} base_output_directory={} 2>{}/err; echo $? >{}/code; }} | head -n 20 >/dev/null", test::binary(),
                          kEndless, at, at, at));
  ASSERT_TRUE(test::wait_until([&] { return test::read_text(at + "/code").ends_with("\n"); }));
  EXPECT_EQ(test::read_text(at + "/code"), "1\n");
  const std::vector<std::int64_t> steps = store::steps_in(at + "/r/checkpoints");
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_THAT(test::read_text(at + "/err"),
              AllOf(HasSubstr(fmt::format("saved checkpoint: {}/r/checkpoints/{}", at, steps.front())),
                    HasSubstr("moesh: error: standard output: nobody reads it any more, so the run has ended\n"
                              "  fix: send it to a file: >FILE\n")));
}

}  // namespace
}  // namespace moesh::train
