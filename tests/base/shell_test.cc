// Command lines quoted for a shell arrive in the program as they were meant.
#include "base/shell.h"

#include <gtest/gtest.h>

#include "tests/process.h"
#include "tests/support.h"

namespace moesh {
namespace {

TEST(ShellLines, HaveQuotesOnlyWhereAShellNeedsThem) {
  EXPECT_EQ(shell_word("base_emb_dim=4096"), "base_emb_dim=4096");
  EXPECT_EQ(shell_word("a/b-c_d.e,f:g+h%i@j"), "a/b-c_d.e,f:g+h%i@j");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_line({"moesh", "compile", "logical_axis_rules=[[embed, [fsdp]]]"}), "moesh compile 'logical_axis_rules=[[embed, [fsdp]]]'");
}

TEST(ShellLines, AreReadBackByAShell) {
  const test::TemporaryFolder folder;
  std::vector<std::string> words{"printf", "%s|"};
  std::string expected;
  for (const std::string word : {"a b", "[[embed,[fsdp]]]", "it's", "\"", "$x", "a\nb", "*", "\\", "x;y", "~", "", "`ls`"}) {
    words.push_back(word);
    expected += word + "|";
  }
  const std::string out = folder.path() + "/out";
  ASSERT_EQ(test::shell(shell_line(words) + " > " + shell_word(out)), 0);
  EXPECT_EQ(test::read_text(out), expected);
}

}  // namespace
}  // namespace moesh
