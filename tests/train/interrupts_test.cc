// Signals that end a run: the first after the current step, with the summary; a second one at once; and
// before the first step as the system does by default.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>

#include "tests/process.h"
#include "tests/train/train_support.h"
#include "tests/train/trainer_support.h"
#include "train/interrupts.h"

namespace moesh::train {
namespace {

using test::kTinyModel;
using test::Process;
using test::TemporaryFolder;
using ::testing::HasSubstr;

constexpr const char* kAnswer = "moesh: ending after this step; once more ends it at once\n";

// A run that would take hours; it has done one step when the constructor returns.
struct Endless {
  TemporaryFolder folder;
  std::string metrics = folder.path() + "/m.jsonl";
  Process process{"train " + kTinyModel + " steps=1000000000 enable_checkpointing=false metrics_file=" + metrics,
                  folder.path()};

  Endless() {
    EXPECT_TRUE(test::wait_until([&] { return test::read_text(metrics).find("\"step\": 0") != std::string::npos; }));
  }
  void expect_ended(int code) {
    EXPECT_EQ(process.wait(), code);
    const std::size_t steps = test::metrics_in(metrics).size();
    EXPECT_THAT(process.out(), HasSubstr(fmt::format("interrupted: {} step{} in ", steps, steps == 1 ? "" : "s")));
    EXPECT_EQ(process.err(), kAnswer);
  }
};

TEST(Interrupts, EndARunAfterItsStepWithItsSummary) {
  const std::pair<int, int> cases[] = {{SIGINT, 130}, {SIGTERM, 143}, {SIGHUP, 129}};
  for (const auto& [signal, code] : cases) {
    SCOPED_TRACE(code);
    Endless run;
    run.process.send(signal);
    run.expect_ended(code);
  }
}

// `timeout` sends its signal both to the process and to its process group.
TEST(Interrupts, OfOneWishAreOne) {
  Endless run;
  run.process.send(SIGTERM);
  run.process.send_to_group(SIGTERM);
  run.expect_ended(143);
}

// The error stream of a child process, and its exit code.
struct EndedRun {
  int code;
  std::string err;
};

template <typename Act>
EndedRun in_a_child(Act act) {
  const TemporaryFolder folder;
  const std::string err = folder.path() + "/err";
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
    act();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return {test::code_of(status), test::read_text(err)};
}

TEST(Interrupts, AreAnsweredAtOnceAndTheSecondEndsTheProcess) {
  const EndedRun once = in_a_child([] {
    const Interrupts interrupts;
    if (interrupts.asked()) ::_exit(1);
    std::raise(SIGTERM);
    if (!interrupts.asked() || interrupts.exit_code() != 143) ::_exit(2);
  });
  EXPECT_EQ(once.code, 0);
  EXPECT_EQ(once.err, kAnswer);
  const EndedRun twice = in_a_child([] {
    const Interrupts interrupts;
    std::raise(SIGTERM);
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    std::raise(SIGINT);
  });
  EXPECT_EQ(twice.code, 130);
  EXPECT_EQ(twice.err, kAnswer);
}

TEST(Interrupts, AreTheSystemsBeforeAndAfterwards) {
  const auto handler_of = [](int signal) {
    struct sigaction action {};
    ::sigaction(signal, nullptr, &action);
    return action.sa_handler;
  };
  const auto handler_of_hangup = std::signal(SIGHUP, SIG_DFL);  // the tests themselves may run under nohup
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const auto before = handler_of(signal);
    {
      const Interrupts interrupts;
      EXPECT_NE(handler_of(signal), before);
    }
    EXPECT_EQ(handler_of(signal), before);
  }
  std::signal(SIGHUP, handler_of_hangup);
}

TEST(Interrupts, LeaveAHangupIgnoredAsNohupHasIt) {
  const EndedRun ended = in_a_child([] {
    std::signal(SIGHUP, SIG_IGN);
    const Interrupts interrupts;
    std::raise(SIGHUP);
    if (interrupts.asked()) ::_exit(1);
  });
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.err, "");
}

}  // namespace
}  // namespace moesh::train
