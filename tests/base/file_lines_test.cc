// Reading the lines of a file one after the other.
#include "base/file_lines.h"

#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support.h"

namespace moesh {
namespace {

using Seen = std::vector<std::tuple<std::string, std::int64_t, bool>>;

Seen lines_of(const std::string& path, std::size_t longest = 1000) {
  FileLines lines(path, "the file", "another", longest);
  Seen all;
  for (FileLines::Line line; lines.next(line);) all.emplace_back(line.text, line.begin, line.has_end && !line.is_cut);
  return all;
}

TEST(FileLines, SayWhereTheyBeginAndWhetherTheyAreWhole) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(lines_of(folder.write("a", "")), Seen());
  EXPECT_EQ(lines_of(folder.write("b", "\n\nx\n")), (Seen{{"", 0, true}, {"", 1, true}, {"x", 2, true}}));
  EXPECT_EQ(lines_of(folder.write("c", "ab\ncd")), (Seen{{"ab", 0, true}, {"cd", 3, false}}));
  EXPECT_EQ(lines_of(folder.write("d", "abcd\nabc\nabcdefgh"), 3), (Seen{{"abc", 0, false}, {"abc", 5, true}, {"abc", 9, false}}));
}

TEST(FileLines, ThatAreTooLongHaveAnEndAllTheSame) {
  const test::TemporaryFolder folder;
  FileLines lines(folder.write("a", "abcd\nabcd"), "the file", "another", 3);
  FileLines::Line line;
  ASSERT_TRUE(lines.next(line));
  EXPECT_TRUE(line.has_end && line.is_cut);
  ASSERT_TRUE(lines.next(line));
  EXPECT_TRUE(!line.has_end && line.is_cut);
}

// The lengths make lines end before, at and after the boundaries of the blocks that are read.
TEST(FileLines, AreTheSameHoweverBlocksCutThem) {
  const test::TemporaryFolder folder;
  std::vector<std::string> expected;
  std::string text;
  for (const std::size_t length : {262'143u, 262'143u, 1u, 262'144u, 0u, 600'000u, 524'286u, 3u}) {
    expected.emplace_back(length, static_cast<char>('a' + expected.size()));
    text += expected.back() + "\n";
  }
  const std::string path = folder.write("f", text);
  FileLines lines(path, "the file", "another");
  std::vector<std::int64_t> begins;
  FileLines::Line line;
  for (const std::string& one : expected) {
    ASSERT_TRUE(lines.next(line));
    EXPECT_TRUE(line.text == one && line.has_end && !line.is_cut) << line.text.size();
    begins.push_back(line.begin);
  }
  EXPECT_FALSE(lines.next(line));
  for (const std::size_t at : {7u, 2u, 3u, 4u, 0u, 6u}) {
    lines.go_to(begins[at]);
    ASSERT_TRUE(lines.next(line));
    EXPECT_TRUE(line.text == expected[at] && line.begin == begins[at]) << at;
  }
}

TEST(FileLines, RefuseWhatIsNoFile) {
  EXPECT_EQ(test::message_of([] { lines_of("/nowhere"); }), "/nowhere: the file cannot be read: No such file or directory\n  fix: another");
  EXPECT_EQ(test::message_of([] { lines_of("/dev/null"); }), "/dev/null: the file cannot be read: it is no file\n  fix: another");
  EXPECT_EQ(test::message_of([] { lines_of("/"); }), "/: the file cannot be read: it is no file\n  fix: another");
}

// Address 0 of a process is not mapped, so reading its memory file from the beginning fails, even as root.
TEST(FileLines, ThatCannotBeReadFail) {
  EXPECT_EQ(test::message_of([] { lines_of("/proc/self/mem"); }), "/proc/self/mem: the file cannot be read: Input/output error\n  fix: another");
}

}  // namespace
}  // namespace moesh
