// What a client receives of its texts while they grow.
#include "serve/texts.h"

#include <thread>

#include <gtest/gtest.h>

#include "tokenizer/bytes.h"

namespace moesh::serve {
namespace {

using decode::Ended;
using std::chrono::milliseconds;

class GrowingTexts : public ::testing::Test {
 protected:
  static Completion asked(bool streams) {
    Completion completion;
    completion.prompts.resize(2);
    completion.streams = streams;
    return completion;
  }

  const std::unique_ptr<tokenizer::Tokenizer> tokenizer_ = tokenizer::bytes();
};

TEST_F(GrowingTexts, AreHeardTokenByToken) {
  Texts texts(asked(true), *tokenizer_);
  for (const char letter : {'x', 'y', 'z'}) {
    EXPECT_TRUE(texts.add(1, {1, letter, Ended::not_yet}));
    const Heard heard = texts.wait(milliseconds(0));
    ASSERT_EQ(heard.growth.size(), 1u);
    EXPECT_EQ(heard.growth[0].text, 1u);
    EXPECT_EQ(heard.growth[0].more, std::string(1, letter));
    EXPECT_EQ(heard.growth[0].ended, Ended::not_yet);
    EXPECT_FALSE(heard.are_whole);
  }
  EXPECT_TRUE(texts.wait(milliseconds(0)).growth.empty()) << "it was told";
}

TEST_F(GrowingTexts, KeepWhatASlowClientDidNotHear) {
  Texts texts(asked(true), *tokenizer_);
  texts.add(0, {0, 'x', Ended::not_yet});
  texts.add(1, {1, 'u', Ended::not_yet});
  EXPECT_FALSE(texts.add(0, {0, 'y', Ended::by_length}));
  const Heard heard = texts.wait(milliseconds(0));
  ASSERT_EQ(heard.growth.size(), 2u);
  EXPECT_EQ(heard.growth[0].more, "xy");
  EXPECT_EQ(heard.growth[0].ended, Ended::by_length);
  EXPECT_EQ(heard.growth[1].more, "u");
  EXPECT_EQ(heard.tokens, 3);
  EXPECT_FALSE(heard.are_whole);
  texts.add(1, {1, 'v', Ended::by_length});
  const Heard end = texts.wait(milliseconds(0));
  ASSERT_EQ(end.growth.size(), 1u) << "an end is told once";
  EXPECT_EQ(end.growth[0].more, "v");
  EXPECT_TRUE(end.are_whole);
}

// The timeout is longer than any test may take, so only new text can end the wait.
TEST_F(GrowingTexts, WakeWhoWaits) {
  for (const bool streams : {true, false}) {
    Texts texts(asked(streams), *tokenizer_);
    std::thread maker([&] {
      for (const std::size_t text : {0, 1}) texts.add(text, {static_cast<std::int64_t>(text), 'x', Ended::by_length});
    });
    std::size_t heard = 0;
    for (bool are_whole = false; !are_whole;) {
      const Heard now = texts.wait(std::chrono::hours(1));
      heard += now.growth.size();
      are_whole = now.are_whole;
      EXPECT_TRUE(streams || are_whole) << "nobody is woken for a part";
    }
    EXPECT_EQ(heard, 2u);
    maker.join();
  }
  Texts texts(asked(true), *tokenizer_);
  std::thread failing([&] { texts.fail("the machine is on fire"); });
  EXPECT_EQ(texts.wait(std::chrono::hours(1)).failure, "the machine is on fire");
  failing.join();
}

}  // namespace
}  // namespace moesh::serve
