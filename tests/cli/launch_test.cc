// Runs that a launcher process starts: they are restarted when they die, and the launcher forwards its signals to them.
#include <csignal>
#include <filesystem>
#include <regex>

#include <gmock/gmock.h>

#include "store/folder.h"
#include "tests/cli/pty.h"
#include "tests/process.h"
#include "tests/train/train_support.h"
#include "tests/train/trainer_support.h"

namespace moesh::cli {
namespace {

using test::Process;
using test::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A run without an end, started again once.
std::string endless(const TemporaryFolder& folder, const std::string& more) {
  return "train " + test::kTinyModel + "enable_checkpointing=true checkpoint_period=100 max_num_checkpoints_to_keep=3 log_config=false " +
         "steps=1000000000 --restarts 1 base_output_directory=" + folder.path() + "/o " + more;
}

std::vector<std::int64_t> numbers_after(const std::string& words, const std::string& text) {
  std::vector<std::int64_t> all;
  const std::regex expected(words + "(\\d+)");
  for (std::sregex_iterator found(text.begin(), text.end(), expected), end; found != end; ++found) all.push_back(std::stoll((*found)[1]));
  return all;
}

// Kills the run after a step, lets its restart do some more steps, then asks it to end. Returns everything that was printed.
std::string killed_once(Process& process, const std::string& step) {
  const auto has_printed = [&](const std::string& words) {
    return test::wait_until([&] { return process.out().find(words) != std::string::npos; });
  };
  EXPECT_TRUE(has_printed("completed step: " + step + ",")) << process.err();
  test::kill_process(test::child_of(process), SIGKILL);
  EXPECT_TRUE(test::wait_until([&] { return process.err().find("it is started again from") != std::string::npos; })) << process.err();
  const std::size_t before = process.out().size();
  EXPECT_TRUE(test::wait_until([&] { return process.out().find("completed step: ", before) != std::string::npos; })) << process.err();
  process.send(SIGTERM);
  EXPECT_EQ(process.wait(), 143) << process.err();
  return process.out();
}

TEST(Restarts, GoOnFromTheNewestCheckpointWhereverTheFirstStartBegan) {
  const TemporaryFolder folder;
  const std::string before = "steps=40 checkpoint_period=10 max_num_checkpoints_to_keep=9 run_name=r";
  ASSERT_EQ(Process(endless(folder, before), folder.path()).wait(), 0);
  Process process(endless(folder, "run_name=r --from 20"), folder.path());
  const std::vector<std::int64_t> begun = numbers_after("Goes on after step ", killed_once(process, "300"));
  ASSERT_EQ(begun.size(), 2u) << process.out();
  EXPECT_EQ(begun[0], 20);
  EXPECT_GE(begun[1], 100);
}

TEST(Restarts, ShareAFolderThatIsNamedOnce) {
  const TemporaryFolder folder;
  Process process(endless(folder, ""), folder.path());
  const std::vector<std::int64_t> begun = numbers_after("Goes on after step ", killed_once(process, "300"));
  ASSERT_EQ(begun.size(), 1u) << process.out();
  EXPECT_GE(begun[0], 100);
  const std::filesystem::directory_iterator runs(folder.path() + "/o");
  EXPECT_EQ(std::distance(runs, {}), 1);
}

TEST(Restarts, SayThatARunWithoutACheckpointBeginsAnew) {
  const TemporaryFolder folder;
  Process process(endless(folder, "checkpoint_period=1000000000 save_checkpoint_on_start=false"), folder.path());
  EXPECT_THAT(killed_once(process, "3"), Not(HasSubstr("Goes on after step ")));
  EXPECT_THAT(process.err(), HasSubstr("it is started again from its beginning, as it has no checkpoint yet, 1 of 1 time"));
}

TEST(Restarts, AreRefusedWithoutCheckpoints) {
  const test::Outcome outcome = test::train_with(test::kTinyModel + "enable_checkpointing=false --restarts 2");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--restarts, with enable_checkpointing=false: no checkpoint would be there to start again from"));
}

TEST(Restarts, LeaveNoFolderOfARunThatWasRefused) {
  const TemporaryFolder folder;
  EXPECT_EQ(Process(endless(folder, "base_emb_dim=13 ici_tensor_parallelism=3"), folder.path()).wait(), 2);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path() + "/o"));
}

class LaunchSlow : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(test::has_mpi()) << test::kNeedsMpi; }

  static std::string spread(const TemporaryFolder& folder, const std::string& more) {
    return "train " + test::kTinyMixtral + "compile_topology=cpu-2 ici_fsdp_parallelism=2 enable_checkpointing=true log_config=false " +
           "checkpoint_period=1000000000 run_name=r --processes 2 base_output_directory=" + folder.path() + " " + more;
  }
  static void wait_for_step(const Process& process, const std::string& step) {
    ASSERT_TRUE(test::wait_until([&] { return process.out().find("completed step: " + step) != std::string::npos; })) << process.err();
  }
};

// Signals are not lost while the processes start. A run that missed the signal would run to its end.
TEST_F(LaunchSlow, NoSignalIsLost) {
  for (const int milliseconds : {0, 5, 15, 30, 60, 90, 120, 150, 200, 250, 300, 400}) {
    const TemporaryFolder folder;
    Process process(spread(folder, "steps=20000"), folder.path());
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    process.send(milliseconds % 20 == 0 ? SIGTERM : SIGINT);
    EXPECT_THAT(process.wait(), ::testing::AnyOf(130, 143)) << milliseconds << process.err();
    EXPECT_THAT(process.err(), Not(HasSubstr("moesh: error"))) << milliseconds;
  }
}

// `timeout` sends its signal to the process and to the group that it is in.
TEST_F(LaunchSlow, SignalsOfOneWishAreOne) {
  const TemporaryFolder folder;
  Process process(spread(folder, "steps=1000000000"), folder.path());
  wait_for_step(process, "3");
  process.send(SIGTERM);
  process.send_to_group(SIGINT);
  EXPECT_THAT(process.wait(), ::testing::AnyOf(130, 143));
  EXPECT_FALSE(store::steps_in(folder.path() + "/r/checkpoints").empty());
  const std::string err = process.err();
  const std::size_t answer = err.find("ending after this step");
  EXPECT_NE(answer, std::string::npos);
  EXPECT_EQ(err.find("ending after this step", answer + 1), std::string::npos) << err;
}

TEST_F(LaunchSlow, ASignalToOneProcessIsNoDeath) {
  const TemporaryFolder folder;
  Process process(spread(folder, "steps=1000000000"), folder.path());
  wait_for_step(process, "3");
  test::kill_process(test::process_of(folder.path(), 1), SIGTERM);
  EXPECT_EQ(process.wait(), 143);
  EXPECT_THAT(process.err(), AllOf(HasSubstr("signal 15 (Terminated) to a process of the run has ended it"), Not(HasSubstr("memory"))));
  EXPECT_FALSE(store::steps_in(folder.path() + "/r/checkpoints").empty());
}

TEST_F(LaunchSlow, ADeathIsTheOnlyThingToldOf) {
  for (const int rank : {0, 1}) {
    const TemporaryFolder folder;
    Process process(spread(folder, "steps=1000000000"), folder.path());
    wait_for_step(process, "3");
    test::kill_process(test::process_of(folder.path(), rank), SIGKILL);
    EXPECT_EQ(process.wait(), 137);
    EXPECT_THAT(process.err(), ::testing::StartsWith(fmt::format("moesh: error: process {} of the run was ended by signal 9 (Killed)\n", rank)));
  }
}

// Its processes write to terminals that mpirun makes.
TEST_F(LaunchSlow, LinesAreBrokenWhereTheLaunchersTerminalIsFull) {
  const std::string more = "steps=2 enable_checkpointing=false";
  const auto longest_on = [&](unsigned short columns) {
    const TemporaryFolder folder;
    int longest = 0;
    for (const std::string& line : test::seen(test::written_to_terminal(spread(folder, more), columns))) {
      const bool is_whole = line.starts_with("Metrics: ") || line.starts_with("moesh: ");
      longest = std::max(longest, is_whole ? 0 : display_width(line));
    }
    return longest;
  };
  EXPECT_LE(longest_on(60), 60);
  EXPECT_THAT(longest_on(100), AllOf(::testing::Gt(80), ::testing::Le(100)));
  const TemporaryFolder folder;
  Process process(spread(folder, more), folder.path());
  EXPECT_EQ(process.wait(), 0);
  EXPECT_THAT(process.out(), Not(HasSubstr("\n  "))) << "a line that goes on";
}

TEST_F(LaunchSlow, TheDeathOfMpirunIsItsOwn) {
  const TemporaryFolder folder;
  Process process(spread(folder, "steps=1000000000"), folder.path());
  wait_for_step(process, "3");
  test::kill_process(test::child_of(process), SIGKILL);
  EXPECT_EQ(process.wait(), 137);
  EXPECT_THAT(process.err(), HasSubstr("mpirun, which holds the processes of the run together, was ended by signal 9 (Killed)"));
  EXPECT_THAT(process.err(), HasSubstr("; the run can go on from its newest whole checkpoint, if it has one"));
  EXPECT_TRUE(test::wait_until([&] { return test::process_of(folder.path() + "\0", 0) == 0; }));
}

TEST_F(LaunchSlow, AJobThatIsStoppedAsAWholeGoesOn) {
  const TemporaryFolder folder;
  Process process(spread(folder, "steps=1000000000 collective_timeout=2"), folder.path());
  wait_for_step(process, "3");
  const pid_t ranks[] = {test::process_of(folder.path(), 0), test::process_of(folder.path(), 1)};
  for (const pid_t rank : ranks) test::kill_process(rank, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(4));
  const std::size_t before = process.out().size();
  for (const pid_t rank : ranks) test::kill_process(rank, SIGCONT);
  EXPECT_TRUE(test::wait_until([&] { return process.out().size() > before + 1000 || !process.err().empty(); }));
  process.send(SIGTERM);
  EXPECT_EQ(process.wait(), 143) << process.err();
}

// Without a terminal, a line of progress is printed every ten seconds.
TEST_F(LaunchSlow, OnlyTheFirstProcessShowsProgressAndNoneWithQuiet) {
  const TemporaryFolder folder, quiet;
  Process process(spread(folder, "steps=1000000000"), folder.path()), silent(spread(quiet, "steps=1000000000 --quiet"), quiet.path());
  EXPECT_TRUE(test::wait_until([&] { return process.err().find("moesh: step ") != std::string::npos; }));
  std::this_thread::sleep_for(std::chrono::seconds(3));
  for (Process* of : {&process, &silent}) of->send(SIGTERM);
  for (Process* of : {&process, &silent}) EXPECT_EQ(of->wait(), 143);
  EXPECT_EQ(numbers_after("moesh: step ", process.err()).size(), 1u) << process.err();
  EXPECT_EQ(silent.err(), "moesh: ending after this step; once more ends it at once\n");
}

}  // namespace
}  // namespace moesh::cli
