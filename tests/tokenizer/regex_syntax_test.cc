// Regular expressions in Ruby's syntax, and what they match after translation to PCRE2.
#include <fmt/core.h>
#include <gmock/gmock.h>

#include "tests/support.h"
#include "tokenizer/regex.h"
#include "tokenizer/regex_syntax.h"

namespace moesh::tokenizer {
namespace {

using test::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> matches(const std::string& pattern, const std::string& text) {
  const Regex regex(to_pcre2(pattern, "t"), "t");
  Regex::Matcher matcher(regex);
  matcher.begin(text);
  std::vector<std::string> found;
  while (const auto match = matcher.next()) found.push_back(text.substr(match->begin, match->end - match->begin));
  return found;
}

TEST(RegexSyntax, WordsHoldMarksAndBlanksTheNextLine) {
  EXPECT_THAT(matches(R"(\w+)", "e\xCC\x81_1 \xE0\xA4\x95\xE0\xA4\xBE"),
              ElementsAre("e\xCC\x81_1", "\xE0\xA4\x95\xE0\xA4\xBE"));
  EXPECT_THAT(matches(R"(\s)", "a\xC2\x85\xE2\x80\xA8"), ElementsAre("\xC2\x85", "\xE2\x80\xA8"));
  EXPECT_THAT(matches(R"(\s)", "\xE1\xA0\x8E"), ElementsAre()) << "a vowel separator is no blank";
  EXPECT_THAT(matches(R"(\b.)", "ab e\xCC\x81"), ElementsAre("a", " ", "e"));
}

TEST(RegexSyntax, HIsAHexadecimalDigit) { EXPECT_THAT(matches(R"(\h+|[\h-]+)", "ag-09"), ElementsAre("a", "-09")); }

TEST(RegexSyntax, ClassesStandWithinClassesAndAreIntersected) {
  EXPECT_THAT(matches(R"([^(\s|[.,])]+)", "ab.c (d|e)"), ElementsAre("ab", "c", "d", "e"));
  EXPECT_THAT(matches("[a-e&&[^bd]]+", "abcde"), ElementsAre("a", "c", "e"));
  EXPECT_THAT(matches("[a[^b]]+", "abc"), ElementsAre("a", "c"));
  EXPECT_THAT(matches("[^a&&a-c]", "abc"), ElementsAre("b", "c")) << "the negation is of both";
  EXPECT_THAT(matches(R"([^\S\n]+)", "a \n\tb"), ElementsAre(" ", "\t"));
  EXPECT_THAT(matches("[[:alpha:][:digit:]]+", "a1-"), ElementsAre("a1"));
}

// Oniguruma's names of scripts mean a character's own script; these characters belong to texts of several.
TEST(RegexSyntax, AScriptHasItsOwnCharactersOnly) {
  struct Script {
    const char *name, *own, *shared;
  };
  for (const auto& [name, own, shared] :
       {Script{"Han", "\u65e5", "\u3001"}, {"Hiragana", "\u3042", "\u30fc"}, {"Katakana", "\u30ab", "\u30fc"}, {"Hangul", "\ud55c", "\u3002"},
        {"Arabic", "\u0639", "\u060c"}, {"Devanagari", "\u0928", "\u0964"}, {"Latin", "a", "\u0363"}, {"Greek", "\u03b1", "\u0342"},
        {"Cyrillic", "\u0431", "\u2e43"}, {"Thai", "\u0e01", "$"}}) {
    const std::string text = std::string(own) + shared;
    EXPECT_THAT(matches(fmt::format(R"(\p{{{}}})", name), text), ElementsAre(own)) << name;
    EXPECT_THAT(matches(fmt::format(R"([\p{{{}}}x]+)", name), text), ElementsAre(own)) << name;
    EXPECT_THAT(matches(fmt::format(R"(\P{{{}}})", name), text), ElementsAre(shared)) << name;
    EXPECT_THAT(matches(fmt::format(R"(\p{{^{}}})", name), text), ElementsAre(shared)) << name;
    EXPECT_THAT(matches(fmt::format(R"([^\p{{{}}}]+)", name), text), ElementsAre(shared)) << name;
  }
  EXPECT_THAT(matches(R"(\p{Common}+)", "a\u3001\u30fc"), ElementsAre("\u3001\u30fc"));
  EXPECT_THAT(matches(R"(\p{L}\p{Lu}|\p{Alphabetic})", "aB"), ElementsAre("aB")) << "other properties are as they were";
  EXPECT_THAT(matches(R"(\pL)", "apL"), ElementsAre("pL")) << "without braces it is a letter";
}

TEST(RegexSyntax, NothingIsQuoted) { EXPECT_THAT(matches(R"(\Qa.b\E)", R"(\Qa.b\E QaxbE)"), ElementsAre("QaxbE")); }

TEST(RegexSyntax, NamedClassesAreOnigurumas) {
  EXPECT_THAT(matches("[[:punct:]]+", "a$+<=>^`|~!\u20ac\u00d71_"), ElementsAre("$+<=>^`|~!\u20ac\u00d7", "_"));
  EXPECT_THAT(matches("[[:word:]]+", "a1_\u00b2\u00b3\u00b9\u00bc\u00bd\u00beb"), ElementsAre("a1_", "b"));
  EXPECT_THAT(matches(R"(\w+)", "a1_\u00b2\u00b3\u00b9\u00bc\u00bd\u00beb"), ElementsAre("a1_\u00b2\u00b3\u00b9\u00bc\u00bd\u00beb"));
}

TEST(RegexSyntax, APlusBehindAnIntervalRepeatsIt) {
  EXPECT_THAT(matches("a{2}+", "aaaaa"), ElementsAre("aaaa"));
  EXPECT_THAT(matches("(?:ab){1,2}+c", "ababababc"), ElementsAre("ababababc"));
  EXPECT_THAT(matches("xa{2}?", "xaax"), ElementsAre("xaa", "x")) << "a question mark leaves it out";
  EXPECT_THAT(matches("a{,2}", "aaa"), ElementsAre("aa", "a"));
  EXPECT_THAT(matches("a{b", "a{b"), ElementsAre("a{b"));
  EXPECT_THAT(matches("a{,}", "aa{,}"), ElementsAre("a{,}")) << "an interval has a bound";
}

TEST(RegexSyntax, MLetsADotTakeLineEndsAndAnchorsAreThoseOfLines) {
  EXPECT_THAT(matches("(?m:a.)", "a\n"), ElementsAre("a\n"));
  EXPECT_THAT(matches("a.", "a\n"), ElementsAre());
  EXPECT_THAT(matches("^a$", "a\na"), ElementsAre("a", "a"));
}

TEST(RegexSyntax, CodePointsAreWrittenInTwoWays) {
  EXPECT_THAT(matches(R"([\u4e00-\u9fa5]+|\x{41})", "A\xE6\xBC\xA2"), ElementsAre("A", "\xE6\xBC\xA2"));
}

TEST(RegexSyntax, LongMatchesHaveTheStackThatTheyNeed) {
  std::string text;
  for (int i = 0; i < 200'000; ++i) text += i % 3 == 0 ? "ab" : "c";
  EXPECT_THAT(matches("(?:(a)b|c)+", text), ElementsAre(text));
}

TEST(RegexSyntax, EmptyMatchesStandWhereNoOtherEnded) {
  EXPECT_THAT(matches("b*", "abc"), ElementsAre("", "b", "")) << "none right behind the b";
}

TEST(RegexSyntax, WhatHasNoCounterpartIsRefused) {
  const auto refusal = [](const std::string& pattern) {
    return message_of([&] { Regex(to_pcre2(pattern, "t"), "t"); });
  };
  EXPECT_THAT(refusal("(?~abc)"), HasSubstr("t: the regular expression '(?~abc)' has the flag '~', which is not done"));
  EXPECT_THAT(refusal("[[:blank:]]"), HasSubstr("has the class [:blank:], which is not done"));
  EXPECT_THAT(refusal("[a"), HasSubstr("has a class without an end"));
  EXPECT_THAT(refusal("a\\"), HasSubstr("has a backslash at its end"));
  EXPECT_THAT(refusal("\\p{Han"), HasSubstr("has a property without an end"));
  EXPECT_THAT(refusal("\\p{Letters}"), HasSubstr("not a regular expression: '\\p{Letters}'"));
  EXPECT_THAT(refusal(std::string(100, '[')), HasSubstr("classes within classes, too deep"));
  EXPECT_THAT(refusal("\\C"), HasSubstr("not a regular expression: '\\C'"));
  EXPECT_THAT(refusal("*"), HasSubstr("not a regular expression: '*'"));
}

}  // namespace
}  // namespace moesh::tokenizer
