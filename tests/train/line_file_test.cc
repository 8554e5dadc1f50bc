// A file of lines belongs to one run at a time, keeps earlier lines, and holds only whole lines.
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <gmock/gmock.h>

#include "tests/support.h"
#include "train/line_file.h"

namespace moesh::train {
namespace {

using test::message_of;
using test::read_text;
using ::testing::HasSubstr;

constexpr std::string_view kOurs = "{\"ours\"";

std::string line_refusal(const std::string& path) {
  return message_of([&] { LineFile(path, kOurs); });
}

TEST(LineFile, KeepsWhatItHeld) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/deep/er/lines";
  for (const char* line : {"{\"ours\": 1}", "{\"ours\": 2}"}) LineFile(path, kOurs).append(line);
  EXPECT_EQ(read_text(path), "{\"ours\": 1}\n{\"ours\": 2}\n");
  EXPECT_TRUE(LineFile(path, kOurs).had_lines());
  EXPECT_FALSE(LineFile(folder.write("empty", ""), kOurs).had_lines());
}

// A file with any other contents stays as it is, also behind a link.
TEST(LineFile, LeavesNoFileBehindThatItMadeAndDidNotWriteTo) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/new.jsonl", empty = folder.write("empty", "");
  { const LineFile unused(path, kOurs); }
  EXPECT_FALSE(std::filesystem::exists(path));
  LineFile(path, kOurs).append("{\"ours\": 1}");
  { const LineFile unused(path, kOurs); }
  EXPECT_TRUE(std::filesystem::exists(path));
  { const LineFile unused(empty, kOurs); }
  EXPECT_TRUE(std::filesystem::exists(empty));
}

TEST(LineFile, LeavesFilesOfOthersAlone) {
  const test::TemporaryFolder folder;
  for (const std::string text : {"steps: 5\n", "{\"text\": \"a document\"}\n", "\n", "{", "{\"ours", "\xff\xfe"}) {
    const std::string path = folder.write("other", text);
    EXPECT_EQ(line_refusal(path), path +
                                 ": the file holds something else than metrics of moesh, which is not overwritten\n"
                                 "  fix: name another file, or remove this one");
    const std::string link = folder.path() + "/link";
    std::filesystem::create_symlink(path, link);
    EXPECT_THAT(line_refusal(link), HasSubstr("the file holds something else"));
    std::filesystem::remove(link);
    EXPECT_EQ(read_text(path), text);
  }
}

TEST(LineFile, FollowsALinkToAFileThatIsOurs) {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("ours", "{\"ours\": 1}\n");
  const std::string link = folder.path() + "/link";
  std::filesystem::create_symlink(path, link);
  LineFile(link, kOurs).append("{}");
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(read_text(path), "{\"ours\": 1}\n{}\n");
}

// Covers long lines, since the file is searched from its end in blocks.
TEST(LineFile, RemovesALastLineThatWasNotFinished) {
  const test::TemporaryFolder folder;
  for (const std::size_t length : {1u, 70'000u, 200'000u}) {
    const std::string path = folder.write("cut", "{\"ours\": 1}\n{\"ours\": 2}\n{" + std::string(length, 'x'));
    ::testing::internal::CaptureStderr();
    LineFile(path, kOurs).append("{}");
    EXPECT_EQ(::testing::internal::GetCapturedStderr(),
              "moesh: note: " + path + ": the last line, which an earlier run did not finish, is removed\n");
    EXPECT_EQ(read_text(path), "{\"ours\": 1}\n{\"ours\": 2}\n{}\n");
  }
  const std::string first = folder.write("first", "{\"ours\": 1");
  ::testing::internal::CaptureStderr();
  LineFile(first, kOurs).append("{}");
  ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(read_text(first), "{}\n");
}

TEST(LineFile, BelongsToOneAtATime) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/lines";
  {
    const LineFile first(path, kOurs);
    EXPECT_EQ(line_refusal(path), path +
                                 ": another run is writing this file\n"
                                 "  fix: a run_name or a metrics_file of its own, or wait for its end");
  }
  EXPECT_EQ(line_refusal(path), "no error");
}

// A killed process leaves no lock behind.
TEST(LineFile, IsFreeOnceItsProcessIsGone) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/lines";
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const LineFile taken(path, kOurs);
    [[maybe_unused]] const ssize_t told = ::write(ready[1], "x", 1);
    while (true) ::pause();
  }
  char told = 0;
  ASSERT_EQ(::read(ready[0], &told, 1), 1);
  EXPECT_THAT(line_refusal(path), HasSubstr("another run is writing this file"));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(line_refusal(path), "no error");
  ::close(ready[0]);
  ::close(ready[1]);
}

// A limit on the file size stands for a disk with room for only part of a line.
TEST(LineFile, HoldsNoPartOfALineForWhichThereIsNoRoom) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/lines";
  LineFile file(path, kOurs);
  file.append("{\"ours\": 1}");
  const std::string before = read_text(path);
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit small{before.size() + 10, limit.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);
  const std::string said = message_of([&] { file.append("{\"ours\": \"a line of more than ten bytes\"}"); });
  ::setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(said, path +
                      ": the metrics could not be written: File too large\n"
                      "  fix: make room, or choose another metrics_file");
  EXPECT_EQ(read_text(path), before);
}

TEST(LineFile, SaysWhyAFileCannotBeWritten) {
  const test::TemporaryFolder folder;
  const std::string pipe = folder.path() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::string file = folder.write("file", "x");
  std::filesystem::create_symlink("loop", folder.path() + "/loop");
  const std::pair<std::string, std::string> cases[] = {
      {folder.path(), "the file cannot be written: Is a directory"},
      {pipe, "the file cannot be written: No such device or address"},
      {file + "/m", "the folder cannot be made: Not a directory"},
      {"/proc/none/m", "the folder cannot be made: No such file or directory"},
      {folder.path() + "/" + std::string(300, 'x'), "the file cannot be written: File name too long"},
      {folder.path() + "/loop", "the file cannot be written: Too many levels of symbolic links"},
  };
  for (const auto& [path, words] : cases) EXPECT_THAT(line_refusal(path), HasSubstr(words)) << path;
  LineFile full("/dev/full", kOurs);
  EXPECT_THAT(message_of([&] { full.append("{}"); }), HasSubstr("could not be written: No space left on device"));
}

TEST(LineFile, SaysThatItsFileHasBeenRemoved) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/deep/er/lines";
  LineFile file(path, kOurs);
  file.append("{\"ours\": 1}");
  std::filesystem::rename(folder.path() + "/deep", folder.path() + "/moved");
  file.append("{\"ours\": 2}");
  std::filesystem::remove_all(folder.path() + "/moved");
  EXPECT_EQ(message_of([&] { file.append("{\"ours\": 3}"); }),
            path + ": the metrics could not be written: the file has been removed\n  fix: leave the folder of a run alone until it has ended");
}

TEST(LineFile, WritesToAPipeThatIsRead) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const Descriptor reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK));
  LineFile(path, kOurs).append("{}");
  char text[4] = {};
  EXPECT_EQ(::read(reader.number(), text, 4), 3);
  EXPECT_STREQ(text, "{}\n");
}

// Only root may create the device file of a disk.
TEST(LineFile, WritesToNoDisk) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/disk";
  if (::mknod(path.c_str(), S_IFBLK | 0600, 0) != 0) GTEST_SKIP() << "no right to make a device";
  EXPECT_THAT(line_refusal(path), HasSubstr("a disk, a file was expected"));
}

}  // namespace
}  // namespace moesh::train
