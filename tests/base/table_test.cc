// Tables printed in a terminal.
#include <string>

#include <gtest/gtest.h>

#include "base/table.h"
#include "base/terminal.h"
#include "base/text.h"
#include "tests/support.h"

namespace moesh {
namespace {

TEST(Tables, AlignNumbersRightAndWordsLeft) {
  Table table({{"name"}, {"size", true}});
  table.add({"a", "1"});
  table.add({"long name", "1,000"});
  EXPECT_EQ(table.text(0),
            "name        size\n"
            "a              1\n"
            "long name  1,000\n");
}

TEST(Tables, PutABlankLineBeforeAGroup) {
  Table table({{"a"}, {"b"}});
  table.add_group({"group", ""});
  table.add({"x", "y"});
  EXPECT_EQ(table.text(0), "a  b\n\ngroup\nx  y\n");
}

TEST(Tables, CutTheWidestFlexibleColumnUntilTheyFit) {
  Table table({{"path", false, Room::cut_start}, {"words", false, Room::cut}, {"n", true}});
  table.add({"a/very/long/path/to/a/kernel", "some words that go on", "12"});
  const std::string text = table.text(40);
  for (const std::string& line : split(text, '\n')) EXPECT_LE(display_width(line), 40) << line;
  EXPECT_NE(text.find("…path/to/a/kernel  some words that …  12\n"), std::string::npos)
      << text << "paths keep their ends, others their beginnings";
}

TEST(Tables, LeaveColumnsThatDoNotGiveWay) {
  Table table({{"a"}});
  table.add({std::string(50, 'x')});
  EXPECT_EQ(table.text(40), "a\n" + std::string(50, 'x') + "\n");
}

TEST(Tables, LeaveOutColumnsWhereCuttingIsNotEnough) {
  Table table({{"name"}, {"labels", false, Room::cut, 2}, {"shape", false, Room::none, 1}, {"spec"}});
  table.add({"a", "a-rather-long-label", "[1, 2, 3]", "[fsdp, -]"});
  EXPECT_EQ(table.text(80), "name  labels               shape      spec\na     a-rather-long-label  [1, 2, 3]  [fsdp, -]\n");
  EXPECT_EQ(table.text(40), "name  labels        shape      spec\na     a-rather-lo…  [1, 2, 3]  [fsdp, -]\n");
  EXPECT_EQ(table.text(30), "name  shape      spec\na     [1, 2, 3]  [fsdp, -]\n");
  EXPECT_EQ(table.text(20), "name  spec\na     [fsdp, -]\n");
}

TEST(Tables, FoldRowsWhereNothingMoreCanBeLeftOut) {
  Table table({{"name"}, {"before"}, {"after"}});
  table.add_group({"group", "7", ""});
  table.add({"  a-name-of-twenty-five-letters", "[fsdp, -]", "[-, fsdp]"});
  EXPECT_EQ(table.text(40),
            "name\n      before     after\n\ngroup  7\n  a-name-of-twenty-five-letters\n      [fsdp, -]  [-, fsdp]\n");
  EXPECT_EQ(table.text(22),
            "name\n      before\n      after\n\ngroup  7\n  a-name-of-twenty-five-letters\n      [fsdp, -]\n      [-, fsdp]\n");
}

TEST(Tables, WrapWhatMayGoOnBelow) {
  Table table({{""}, {"", false, Room::wrap}});
  table.add({"key", "one two three four five six seven eight nine"});
  table.add({"b", "ten"});
  EXPECT_EQ(table.text(30), "key  one two three four five\n     six seven eight nine\nb    ten\n");
}

// Rather than folding rows, and only where no column can be left out instead.
TEST(Tables, BreakLongWordsWhereNothingElseHelps) {
  Table table({{"", true}, {"step", true}, {"layout", false, Room::wrap}, {"limit", false, Room::wrap, 1}});
  table.add({"1", "3.06 s", "fsdp=64; remat_policy=save_dot_with_context_except_mlp", "products"});
  EXPECT_EQ(table.text(60), "     step  layout\n1  3.06 s  fsdp=64;\n           remat_policy=save_dot_with_context_except_mlp\n");
  EXPECT_EQ(table.text(40),
            "     step  layout\n1  3.06 s  fsdp=64;\n           remat_policy=save_dot_with_\n           context_except_mlp\n");
}

TEST(Tables, LetAHeadingRunOnUnderTheColumnsBesideIt) {
  Table table({{"name"}, {"n", true}});
  table.add({"a/heading/that/is/long/", ""});
  table.add({"  leaf", "1"});
  EXPECT_EQ(table.text(0), "name    n\na/heading/that/is/long/\n  leaf  1\n");
}

TEST(Tables, CountColumnsNotBytes) {
  Table table({{"a"}, {"b"}});
  table.add({"éé", "x"});
  table.add({"ee", "y"});
  EXPECT_EQ(table.text(0), "a   b\néé  x\nee  y\n");
}

TEST(TerminalWidth, FollowsColumnsWithinReason) {
  {
    const test::Variable columns("COLUMNS", "100");
    EXPECT_EQ(terminal_width(), 100);
  }
  for (const char* nonsense : {"0", "-5", "7", "x", "100000"}) {
    const test::Variable columns("COLUMNS", nonsense);
    EXPECT_NE(terminal_width(), 7) << nonsense;
    EXPECT_LE(terminal_width(), 65535);
  }
}

}  // namespace
}  // namespace moesh
