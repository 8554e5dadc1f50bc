// Tables for terminals.
#include <string>

#include <gtest/gtest.h>

#include "base/table.h"
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
  EXPECT_EQ(table.text(0), "a      b\n\ngroup\nx      y\n");
}

TEST(Tables, CutTheWidestFlexibleColumnUntilTheyFit) {
  Table table({{"path", false, true, true}, {"words", false, true}, {"n", true}});
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
