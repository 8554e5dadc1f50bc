// Commands on a terminal: lines that fit, a progress display that leaves nothing behind, and colours.
#include <algorithm>
#include <regex>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "tests/cli/outcome.h"
#include "tests/cli/pty.h"

namespace moesh::cli {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using test::seen;
using test::written_to_terminal;

const std::string kTinyLong =
    "train base_num_decoder_layers=2 base_emb_dim=32 base_mlp_dim=64 base_num_query_heads=2 base_num_kv_heads=2 head_dim=16 "
    "decoder_block=mixtral num_experts=4 num_experts_per_tok=2 vocab_size=64 max_target_length=64 per_device_batch_size=1 "
    "compile_topology=cpu-2 dataset_type=synthetic dtype=float32 log_config=false enable_checkpointing=false run_name=r "
    "steps=4 base_output_directory=";

int lines_like(const std::vector<std::string>& lines, const std::string& pattern) {
  return static_cast<int>(std::count_if(lines.begin(), lines.end(),
                                        [&](const std::string& l) { return std::regex_search(l, std::regex(pattern)); }));
}

TEST(Terminal, ShowsLinesOfARunThatFitAndNothingOfTheProgressAfterwards) {
  const test::TemporaryFolder folder;
  for (const unsigned short columns : std::vector<unsigned short>{80, 100, 120, 200}) {
    SCOPED_TRACE(columns);
    const std::string written = written_to_terminal(kTinyLong + folder.path(), columns);
    const std::vector<std::string> lines = seen(written);
    for (const std::string& line : lines) {
      const bool is_a_path = line.find(folder.path()) != std::string::npos;
      EXPECT_TRUE(is_a_path || display_width(line) <= columns) << line;
    }
    EXPECT_EQ(lines_like(lines, "^step \\d of 3   loss \\d+\\.\\d{4}   .*tokens/s"), 4);
    EXPECT_EQ(lines_like(lines, "step \\d+/4|parameters \\d+/|\\[[#.]+\\]"), 0) << written;
    EXPECT_EQ(lines_like(lines, "busiest expert \\d\\.\\d\\d x the mean"), columns >= 100 ? 4 : 0);
  }
}

// A terminal that does not report its width, as mpirun makes them for its processes, breaks lines itself.
TEST(Terminal, OfUnknownWidthGetsWholeLines) {
  const test::TemporaryFolder folder;
  const std::vector<std::string> lines = seen(written_to_terminal(kTinyLong + folder.path(), 0));
  EXPECT_EQ(lines_like(lines, "^completed step: \\d, .*moe_lb_loss"), 4);
  EXPECT_EQ(lines_like(lines, "^ "), 0) << "a line that goes on";
}

// Each display counts all steps whose lines were printed before it. It shows no remaining time before the
// first step, and disappears after the last.
TEST(Terminal, ShowsProgressThatIsTrue) {
  const test::TemporaryFolder folder;
  const std::string written = written_to_terminal(kTinyLong + folder.path(), 120);
  const std::regex piece("step (\\d+) of 3 |step (\\d+)/4([^\\r\\n]*)");
  std::int64_t done = 0;
  int displays = 0;
  for (std::sregex_iterator found(written.begin(), written.end(), piece), end; found != end; ++found) {
    if ((*found)[1].matched) {
      EXPECT_EQ(std::stoll((*found)[1]), done);
      ++done;
      continue;
    }
    ++displays;
    EXPECT_EQ(std::stoll((*found)[2]), done) << "a display that lags behind";
    EXPECT_LT(done, 4) << "a display when all is done";
    EXPECT_EQ((*found)[3].str().find("left") != std::string::npos, done > 0) << (*found)[3];
    EXPECT_EQ((*found)[3].str().find(" 0 s left"), std::string::npos);
  }
  EXPECT_EQ(done, 4);
  EXPECT_GE(displays, 4);
}

// A display as wide as the terminal would wrap and leave its first line behind.
TEST(Terminal, KeepsTheProgressOnOneLine) {
  const test::TemporaryFolder folder;
  const std::string written = written_to_terminal(kTinyLong + folder.path(), 40);
  const std::regex display("\\[[#.]+\\][^\\r\\n\\033]*");
  for (std::sregex_iterator found(written.begin(), written.end(), display), end; found != end; ++found) {
    EXPECT_LT(display_width(found->str()), 40) << found->str();
  }
}

TEST(Terminal, ColoursOnlyWhereItMay) {
  const std::string wrong = "shardings stepz=3";
  const std::string colour = "\033[31m";
  EXPECT_THAT(written_to_terminal(wrong, 80, {}, 2), HasSubstr("moesh: " + colour + "error\033[0m: "));
  EXPECT_THAT(written_to_terminal(wrong, 80, {{"NO_COLOR", "1"}}, 2), AllOf(HasSubstr("moesh: error: "), Not(HasSubstr("\033[3"))));
  EXPECT_THAT(outcome(wrong).err, AllOf(StartsWith("moesh: error: "), Not(HasSubstr("\033"))));
  const std::string oddities = "lint compile_topology=v6e-8 per_device_batch_size=1.5";
  EXPECT_THAT(written_to_terminal(oddities, 80, {}, 1), HasSubstr(colour + "error"));
  EXPECT_THAT(written_to_terminal(oddities, 80, {{"NO_COLOR", "1"}}, 1), Not(HasSubstr("\033")));
  EXPECT_THAT(outcome(oddities).out, Not(HasSubstr("\033")));
  for (const std::string kind : {"dumb", ""}) {
    const test::TemporaryFolder folder;
    EXPECT_THAT(written_to_terminal(kTinyLong + folder.path(), 80, {{"TERM", kind}}), Not(HasSubstr("\033")));
    EXPECT_THAT(written_to_terminal(oddities, 80, {{"TERM", kind}}, 1), Not(HasSubstr("\033")));
  }
}

}  // namespace
}  // namespace moesh::cli
