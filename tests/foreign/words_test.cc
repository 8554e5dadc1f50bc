#include "foreign/words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/shell.h"
#include "base/text.h"
#include "tests/support.h"

namespace moesh::foreign {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> texts_of(const std::string& text) {
  std::vector<std::string> texts;
  for (const ShellWord& word : shell_words(text, "--from megatron")) texts.push_back(word.is_sign ? "sign " + word.text : word.text);
  return texts;
}

TEST(ShellWords, QuotesAndBackslashesMeanWhatTheyMeanToAShell) {
  EXPECT_THAT(texts_of("a 'b c' \"d 'e'\" f\\ g"), ElementsAre("a", "b c", "d 'e'", "f g"));
  EXPECT_THAT(texts_of("a'b'\"c\"d ''"), ElementsAre("abcd", ""));
  EXPECT_THAT(texts_of(R"("\"\\\$\`\n" '\')"), ElementsAre("\"\\$`\\n", "\\"));
  EXPECT_THAT(texts_of("$A ${B[@]} $(pwd)/x"), ElementsAre("$A", "${B[@]}", "$(pwd)/x"));
  EXPECT_THAT(texts_of("a\\"), ElementsAre("a"));
}

TEST(ShellWords, LinesGoOnBehindABackslash) {
  EXPECT_THAT(texts_of("--a 1 \\\n  --b 2\\\r\n--c\n--d"), ElementsAre("--a", "1", "--b", "2--c", "--d"));
  EXPECT_THAT(texts_of("\"a\\\nb\""), ElementsAre("ab"));
}

TEST(ShellWords, LeavesOutComments) {
  EXPECT_THAT(texts_of("# first\n--a 1 # --b 2\n--c x#y"), ElementsAre("--a", "1", "--c", "x#y"));
}

TEST(ShellWords, KnowsTheShellsSigns) {
  EXPECT_THAT(texts_of("a; b && c 2>&1 | tee x"),
              ElementsAre("a", "sign ;", "b", "sign &", "sign &", "c", "sign >", "sign &", "1", "sign |", "tee", "x"));
}

TEST(ShellWords, PatternsOfLayersNeedNoQuotes) {
  EXPECT_THAT(texts_of("--moe-layer-freq ([0]*3+[1]*58) --a [0]*3+[1]*58 ([0,1]*2)"),
              ElementsAre("--moe-layer-freq", "([0]*3+[1]*58)", "--a", "[0]*3+[1]*58", "([0,1]*2)"));
}

TEST(ShellWords, RefusesWhatIsNoCommand) {
  const auto message = [](const std::string& text) { return test::message_of([&] { shell_words(text, "--from megatron"); }); };
  EXPECT_EQ(message("--a 'b"), "--from megatron: the quote that begins at 'b has no end\n  fix: end it, or leave it out");
  EXPECT_EQ(message(std::string("a\0b", 3)), "--from megatron: bytes that are no text (UTF-8)\n  fix: give the command as it is typed");
  EXPECT_EQ(message("\xff"), "--from megatron: bytes that are no text (UTF-8)\n  fix: give the command as it is typed");
  EXPECT_EQ(message(std::string((1 << 20) + 1, 'a')), "--from megatron: a command of more than 1.00 MiB\n  fix: give the command alone");
}

TEST(ShellWords, AreReadBackFromWhatIsQuotedForAShell) {
  for (const std::string word : {"a b", "[[embed,[fsdp]]]", "it's", "\"", "$x", "a\nb", "*", "\\", "x;y", "~", ""}) {
    const std::vector<ShellWord> words = shell_words(shell_word(word), "a test");
    ASSERT_EQ(words.size(), 1u) << word;
    EXPECT_EQ(words.front().text, word);
  }
}

}  // namespace
}  // namespace moesh::foreign
