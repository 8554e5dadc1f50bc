// Standard streams that are closed, full or broken: no command aborts, and nothing that is printed ends up in a file.
#include <filesystem>

#include <gmock/gmock.h>

#include "tests/process.h"
#include "tests/train/train_support.h"
#include "tests/train/trainer_support.h"

namespace moesh::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kClosed =
    "moesh: error: standard output: it is closed\n  fix: >/dev/null, if nobody is to read it\n";
constexpr const char* kFull =
    "moesh: error: standard output: the output could not be written: No space left on device\n"
    "  fix: is the disk full?\n";
constexpr const char* kUnwritable =
    "moesh: error: standard output: the output could not be written: Bad file descriptor\n  fix: is the disk full?\n";

struct State {
  const char* redirection;
  bool takes_output;
  const char* said;  // the message about an output that cannot be written; empty if nobody could read it
};

constexpr State kStates[] = {
    {"<&-", true, ""},
    {"2>&-", true, ""},
    {"<&- 2>&-", true, ""},
    {"2>/dev/full", true, ""},
    {"</dev/full", true, ""},
    {">&-", false, kClosed},
    {"<&- >&-", false, kClosed},
    {">&- 2>&-", false, ""},
    {"<&- >&- 2>&-", false, ""},
    {">/dev/full", false, kFull},
    {">/dev/full 2>/dev/full", false, ""},
    {">/dev/full 2>&-", false, ""},
    {"1</dev/null", false, kUnwritable},
};

struct Line {
  std::string words;
  int code;  // the exit code if the output can be written
};

std::vector<Line> lines(const std::string& folder) {
  const std::string small = " base_num_decoder_layers=2 base_emb_dim=64 base_mlp_dim=128 vocab_size=256";
  return {{"--version", 0},
          {"", 0},
          {"help steps", 0},
          {"help keys", 0},
          {"shardings" + small, 0},
          {"shardings --json" + small, 0},
          {"why token_embedder" + small, 0},
          {"graph" + small, 0},
          {"lint compile_topology=v6e-8 per_device_batch_size=1.5", 1},
          {"train steps=2 " + test::kTinyModel + " steps=2 run_name=r base_output_directory=" + folder, 0}};
}

TEST(Streams, EveryCommandEndsInEveryState) {
  const test::TemporaryFolder folder;
  const std::string errors = folder.path() + "/errors";
  for (const State& state : kStates) {
    for (const Line& line : lines(folder.path())) {
      SCOPED_TRACE(line.words + " " + state.redirection);
      // The redirections that come first apply to the streams that the state does not change.
      const std::string command =
          fmt::format("{} {} >/dev/null 2>{} {}", test::binary(), line.words, errors, state.redirection);
      EXPECT_EQ(test::shell(command), state.takes_output ? line.code : 1);
      if (!state.takes_output) {
        EXPECT_THAT(test::read_text(errors), ::testing::EndsWith(state.said));
      }
    }
  }
  for (const nlohmann::json& of : test::json_lines_in(folder.path() + "/r/metrics.jsonl")) {
    EXPECT_TRUE(of.contains("run") || of.contains("step")) << of;
  }
}

TEST(Streams, AWrongRequestIsOneWhoeverListens) {
  for (const char* state : {"2>&-", "2>/dev/full", ">/dev/full", ">/dev/full 2>/dev/full", "<&- 2>&-"}) {
    EXPECT_EQ(test::shell(test::binary() + " shardings stepz=3 >/dev/null 2>/dev/null " + state), 2) << state;
  }
}

// If the descriptors of closed streams were left free, files opened later would get their numbers and receive what is printed.
TEST(Streams, NothingThatIsPrintedGetsIntoTheMetrics) {
  const test::TemporaryFolder folder;
  for (const char* state : {"2>&-", "<&- 2>&-", "<&-"}) {
    const std::string path = folder.path() + "/m.jsonl";
    EXPECT_EQ(test::shell(fmt::format("{} train {} steps=2 metrics_file={} >/dev/null {}", test::binary(),
                                      test::kTinyModel, path, state)),
              0);
    EXPECT_EQ(test::metrics_in(path).size(), 2u) << state;
    std::filesystem::remove(path);
  }
}

// What `moesh ... | head` does, both with SIGPIPE's default action and with a caller that ignores SIGPIPE.
TEST(Streams, AReaderThatWentAwayEndsACommandQuietly) {
  const test::TemporaryFolder folder;
  const std::string code = folder.path() + "/code", errors = folder.path() + "/errors";
  for (const char* before : {"", "trap '' PIPE; "}) {
    // The reader closes its end of the pipe and then creates the file that the writer waits for.
    const std::string gone = folder.path() + "/gone";
    test::shell(
        fmt::format("{{ {}while [ ! -e {} ]; do sleep 0.01; done; {} help keys 2>{}; echo $? >{}; }} | "
                    "{{ exec <&-; >{}; }}",
                    before, gone, test::binary(), errors, code, gone));
    std::filesystem::remove(gone);
    ASSERT_TRUE(test::wait_until([&] { return test::read_text(code).ends_with("\n"); }));
    EXPECT_EQ(test::read_text(code), "141\n") << before;
    EXPECT_THAT(test::read_text(errors), IsEmpty()) << before;
    std::filesystem::remove(code);
  }
}

TEST(Streams, ACallerMayLeaveOutTheProgramsName) {
  const test::TemporaryFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(STDOUT_FILENO);
    ::open("/dev/null", O_WRONLY);
    char* const none[] = {nullptr};
    ::execv(test::binary().c_str(), none);
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(test::code_of(status), 0);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Sanitizers themselves need more memory than these limits leave. At the smallest limits the loader fails with code 127; above them its
// libraries fit, but what their memory allocator needs to begin does not, and no program begins.
TEST(Streams, TooLittleMemoryIsNoFaultOfMoesh) {
  const test::TemporaryFolder folder;
  const std::string errors = folder.path() + "/errors";
  bool has_begun = false;
  for (int kilobytes = 12000; kilobytes < 36000; kilobytes += 200) {
    const int code = test::shell(fmt::format("ulimit -v {}; {} train {} steps=1 metrics_file=/dev/null >/dev/null 2>{}",
                                             kilobytes, test::binary(), test::kTinyModel, errors));
    const std::string said = test::read_text(errors);
    const bool aborts = code == 134 && said.starts_with("terminate called without an active exception");
    const bool crashes = code == 139 && said.find("moesh:") == std::string::npos;
    if (!has_begun && (code == 127 || aborts || crashes)) continue;
    has_begun = true;
    EXPECT_TRUE(code == 0 || code == 1) << kilobytes << ": " << code << " " << said;
    EXPECT_THAT(said, ::testing::Not(HasSubstr("fault of moesh"))) << kilobytes;
    if (code == 1) {
      EXPECT_THAT(said, HasSubstr("out of memory")) << kilobytes;
    }
  }
  EXPECT_TRUE(has_begun);
}
#endif

}  // namespace
}  // namespace moesh::cli
