// Parts of a tokenizer.json where two rules meet: unknown text, ends of words, added tokens beside each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tokenizer/tokenizer_support.h"

namespace moesh::tokenizer {
namespace {

using test::tokenizer_of;
using test::tokens_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kUnigram = R"({"type": "Unigram", "unk_id": null, "vocab": [["a", -1], ["b", -1], ["ab", -1.5]]})";

TEST(TokenizerCorners, UnigramsWithoutAnUnknownTokenTakeTextThatTheyKnow) {
  const auto tokenizer = tokenizer_of({{"model", kUnigram}});
  EXPECT_THAT(tokens_of(*tokenizer, "aba"), ElementsAre("ab", "a"));
  EXPECT_THAT(test::message_of([&] { tokens_of(*tokenizer, "abc"); }), HasSubstr("unk_id"));
}

// Only some of the bytes are tokens: then none of a character's bytes is taken.
TEST(TokenizerCorners, UnigramsTakeAllBytesOfACharacterOrNone) {
  const auto tokenizer = tokenizer_of(
      {{"model",
        R"({"type": "Unigram", "unk_id": 0, "byte_fallback": true, "vocab": [["?", 0], ["a", -1], ["<0xC3>", -3], ["<0xA9>", -3]]})"}});
  EXPECT_THAT(tokens_of(*tokenizer, "a\xC3\xA9"), ElementsAre("a", "<0xC3>", "<0xA9>"));
  EXPECT_THAT(tokens_of(*tokenizer, "a\xC3\xA8"), ElementsAre("a", "?"));
}

TEST(TokenizerCorners, FusedUnknownCharactersAreOnePieceOfTheText) {
  const std::string model = R"({"type": "BPE", "unk_token": "?", "fuse_unk": true, "merges": [], "vocab": {"?": 0, "a": 1}})";
  const std::vector<Piece> pieces = tokenizer_of({{"model", model}})->pieces("axyza", Special::left_out);
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[1].begin, 1);
  EXPECT_EQ(pieces[1].end, 4);
}

TEST(TokenizerCorners, WordPiecesMayBeAsLongAsTheLongestToken) {
  const std::string model = R"({"type": "WordPiece", "unk_token": "?", "continuing_subword_prefix": "##", "max_input_chars_per_word": 9,
                                "vocab": {"?": 0, "abcd": 1, "a": 2, "##b": 3, "##c": 4, "##d": 5, "##e": 6}})";
  EXPECT_THAT(tokens_of(*tokenizer_of({{"model", model}}), "abcde"), ElementsAre("abcd", "##e"));
}

TEST(TokenizerCorners, NothingIsPrependedToNothing) {
  const auto tokenizer = tokenizer_of({{"normalizer", R"({"type": "Prepend", "prepend": "a"})"}});
  EXPECT_THAT(tokens_of(*tokenizer, ""), ElementsAre());
  EXPECT_THAT(tokens_of(*tokenizer, "b"), ElementsAre("ab"));
}

TEST(TokenizerCorners, NmtDropsBothOfItsLateControls) {
  const auto tokenizer = tokenizer_of({{"normalizer", R"({"type": "Nmt"})"}});
  EXPECT_THAT(tokens_of(*tokenizer,
                        "a\xC2\x8F\xC2\x9F"
                        "b"),
              ElementsAre("ab"));
}

// Older files say only whether a space is added.
TEST(TokenizerCorners, MetaspacesThatAddNoSpaceHaveNone) {
  const std::string model = R"({"type": "BPE", "unk_token": "?", "merges": [], "vocab": {"?": 0, "a": 1, "_": 2}})";
  const auto of = [&](const char* adds) {
    return tokens_of(
        *tokenizer_of({{"model", model},
                       {"pre_tokenizer", fmt::format(R"({{"type": "Metaspace", "replacement": "_", "add_prefix_space": {}}})", adds)}}),
        "a a");
  };
  EXPECT_THAT(of("true"), ElementsAre("_", "a", "_", "a"));
  EXPECT_THAT(of("false"), ElementsAre("a", "_", "a"));
}

std::string added(const std::string& content, int id, const std::string& strips) {
  return fmt::format(R"({{"id": {}, "content": "{}", "single_word": false, {}, "normalized": false, "special": true}})", id, content,
                     strips);
}

// The first takes the blanks behind it, so the second finds none in front.
TEST(TokenizerCorners, BlanksBetweenAddedTokensAreTakenOnce) {
  const std::string tokens =
      "[" + added("<x>", 12, R"("lstrip": false, "rstrip": true)") + "," + added("<y>", 13, R"("lstrip": true, "rstrip": false)") + "]";
  const auto tokenizer = tokenizer_of({{"added_tokens", tokens}});
  const std::vector<Piece> pieces = tokenizer->pieces("<x>  <y>a", Special::left_out);
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[0].end, 5);
  EXPECT_EQ(pieces[1].begin, 5);
}

TEST(TokenizerCorners, AnAddedTokenThatIsListedTwiceHasOneId) {
  const std::string plain = R"("lstrip": false, "rstrip": false)";
  const auto tokenizer =
      tokenizer_of({{"added_tokens", "[" + added("<x>", 12, plain) + "," + added("<x>", 12, plain) + "," + added("<y>", 13, plain) + "]"}});
  EXPECT_EQ(tokenizer->id("<x>"), 12);
  EXPECT_EQ(tokenizer->id("<y>"), 13);
}

}  // namespace
}  // namespace moesh::tokenizer
