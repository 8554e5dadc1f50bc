#include "foreign/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support.h"

namespace moesh::foreign {
namespace {

using ::testing::ElementsAre;

Flags flags(const std::string& words) { return Flags(flags_of(test::words_of(words), "a test")); }

std::vector<std::string> names(const std::vector<Flag>& all) {
  std::vector<std::string> names;
  for (const Flag& flag : all) names.push_back(flag.name);
  return names;
}

TEST(ForeignFlags, TakeTheValuesBehindThem) {
  const std::vector<Flag> all = flags_of(test::words_of("before --a 1 2 --b=3 --c -0.5 --d"), "a test");
  EXPECT_THAT(names(all), ElementsAre("a", "b", "c", "d"));
  EXPECT_THAT(all[0].values, ElementsAre("1", "2"));
  EXPECT_THAT(all[1].values, ElementsAre("3"));
  EXPECT_THAT(all[2].values, ElementsAre("-0.5"));
  EXPECT_THAT(all[3].values, ElementsAre());
  EXPECT_EQ(all[1].where, "a test: --b");
}

TEST(ForeignFlags, TheLastOneOfANameCounts) {
  Flags given = flags("--a 1 --a 2 --b");
  EXPECT_EQ(given.integer("a", 0), 2);
  EXPECT_EQ(given.integer("none", 0), std::nullopt);
}

TEST(ForeignFlags, TellWhichNobodyAskedFor) {
  Flags given = flags("--a 1 --b --c --b --d");
  given.has("a");
  EXPECT_TRUE(given.is_given("d"));
  EXPECT_THAT(names(given.left()), ElementsAre("b", "c", "d"));
}

TEST(ForeignFlags, ReadWhatTheySay) {
  Flags given = flags("--real 1e-4 --yes True --no false --alone --word x --choice b");
  EXPECT_EQ(given.real("real"), 1e-4);
  EXPECT_EQ(given.boolean("yes"), true);
  EXPECT_EQ(given.boolean("no"), false);
  EXPECT_EQ(given.boolean("alone"), true);
  EXPECT_TRUE(given.is_set("alone"));
  EXPECT_FALSE(given.is_set("none"));
  EXPECT_EQ(given.text("word"), "x");
  EXPECT_EQ(given.choice("choice", "a", {"a", "b"}), "b");
  EXPECT_EQ(given.choice("none", "a", {"a", "b"}), "a");
}

TEST(ForeignFlags, RefuseValuesOfAnotherKind) {
  const auto message = [](const std::string& words, auto read) {
    return test::message_of([&] {
      Flags given = flags(words);
      read(given);
    });
  };
  const auto integer = [](Flags& given) { given.integer("a", 1); };
  EXPECT_EQ(message("--a", integer), "a test: --a: no value, a whole number from 1 was expected\n  fix: correct it, or leave it out");
  EXPECT_EQ(message("--a 1 2", integer), "a test: --a: several values, '1 2', a whole number from 1 was expected\n  fix: correct it, or leave it out");
  EXPECT_EQ(message("--a 0", integer), "a test: --a: '0', a whole number from 1 was expected\n  fix: correct it, or leave it out");
  EXPECT_EQ(message("--a 1.5", integer), "a test: --a: '1.5', a whole number from 1 was expected\n  fix: correct it, or leave it out");
  EXPECT_EQ(message("--a 99999999999999", integer), "a test: --a: '99999999999999', at most 1,000,000,000 was expected\n  fix: correct it, or leave it out");
  EXPECT_EQ(message("--a $TP", integer), "a test: --a: '$TP', a whole number from 1 was expected\n  fix: write the value of the shell's variable");
  EXPECT_EQ(message("--a nan", [](Flags& given) { given.real("a"); }), "a test: --a: 'nan', a number was expected\n  fix: correct it, or leave it out");
  EXPECT_EQ(message("--a maybe", [](Flags& given) { given.boolean("a"); }), "a test: --a: 'maybe', true or false was expected\n  fix: correct it, or leave it out");
  EXPECT_EQ(message("--a 1", [](Flags& given) { given.is_set("a"); }), "a test: --a: '1', no value was expected\n  fix: correct it, or leave it out");
  EXPECT_EQ(message("--a c", [](Flags& given) { given.choice("a", "x", {"x", "y"}); }), "a test: --a: 'c', one of x, y was expected\n  fix: correct it, or leave it out");
  EXPECT_EQ(message("--a $X", [](Flags& given) { given.text("a"); }), "a test: --a: '$X', a word was expected\n  fix: write the value of the shell's variable");
}

}  // namespace
}  // namespace moesh::foreign
