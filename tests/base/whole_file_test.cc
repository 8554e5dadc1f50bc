// Files are replaced as a whole or not at all.
#include "base/whole_file.h"

#include <filesystem>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include "tests/support.h"

namespace moesh {
namespace {

std::size_t files_in(const std::string& folder) {
  const std::filesystem::directory_iterator begin(folder);
  return static_cast<std::size_t>(std::distance(begin, std::filesystem::directory_iterator()));
}

TEST(WholeFile, IsReadAsItWasWritten) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/f", bytes("a\0b\n", 4);
  replace_file(path, "longer than what comes next", "fix");
  replace_file(path, bytes, "fix");
  EXPECT_EQ(read_file(path, "the file", 100, "fix"), bytes);
  EXPECT_EQ(files_in(folder.path()), 1u);
}

// The folder is missing rather than write-protected, since write protection does not stop root.
TEST(WholeFile, SaysWhyItIsNotWritten) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(test::message_of([&] { replace_file(folder.path() + "/no/f", "x", "another"); }),
            folder.path() + "/no/f: the file cannot be written: No such file or directory\n  fix: another");
  EXPECT_EQ(test::message_of([&] { replace_file(folder.path(), "x", "another"); }),
            folder.path() + ": something else than a file lies there\n  fix: another");
  EXPECT_EQ(test::message_of([&] { replace_file("/dev/null", "x", "another"); }),
            "/dev/null: something else than a file lies there\n  fix: another");
}

TEST(WholeFile, StaysAsItWasWhereTheDiskIsFull) {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("f", "before");
  struct rlimit before {};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const struct rlimit small { 1000, before.rlim_max };
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &small);
  const std::string message = test::message_of([&] { replace_file(path, std::string(5000, 'x'), "another"); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  EXPECT_EQ(message, path + ": the file cannot be written: File too large\n  fix: another");
  EXPECT_EQ(test::read_text(path), "before");
  EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(WholeFile, KeepsTheLinkThatLeadsToIt) {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("f", "before"), link = folder.path() + "/link";
  std::filesystem::create_symlink(path, link);
  replace_file(link, "after", "fix");
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(test::read_text(path), "after");
}

TEST(WholeFile, SaysWhyItIsNotRead) {
  const test::TemporaryFolder folder;
  const auto message = [&](const std::string& path) {
    return test::message_of([&] { read_file(path, "the plan", 4, "another"); });
  };
  EXPECT_EQ(message(folder.path() + "/no"),
            folder.path() + "/no: the plan cannot be read: No such file or directory\n  fix: another");
  EXPECT_EQ(message(folder.path()), folder.path() + ": the plan cannot be read: it is no file\n  fix: another");
  const std::string large = folder.write("f", "12345");
  EXPECT_EQ(message(large), large + ": the plan has 5 bytes, at most 4 are read\n  fix: another");
}

}  // namespace
}  // namespace moesh
