// Code points, character classes and normalisation forms.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tokenizer/unicode.h"

namespace moesh::tokenizer {
namespace {

using ::testing::ElementsAre;

TEST(Unicode, CodePointsAreReadAsTheyAreWritten) {
  for (const CodePoint c : {0x00, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF}) {
    const std::string text = utf8(c);
    EXPECT_EQ(code_point(text, 0).value, c);
    EXPECT_EQ(code_point(text, 0).bytes, text.size());
  }
  EXPECT_EQ(count_code_points("a\xC3\xA9\xF0\x9F\x91\x8D"), 3u);
}

TEST(Unicode, EachSequenceThatGoesWrongIsOneReplacement) {
  const std::string r(kReplacement);
  EXPECT_EQ(repaired("a\x80z"), "a" + r + "z");
  EXPECT_EQ(repaired("\xC0\xAF"), r + r) << "an overlong form";
  EXPECT_EQ(repaired("\xED\xA0\x80"), r + r + r) << "a surrogate";
  EXPECT_EQ(repaired("\xF0\x9F\x92"), r) << "cut short";
  EXPECT_EQ(repaired("\xE6\x97z"), r + "z");
  EXPECT_EQ(repaired("\xF5\x80\x80\x80"), r + r + r + r);
  EXPECT_EQ(repaired("whole \xE6\x97\xA5"), "whole \xE6\x97\xA5");
}

TEST(Unicode, FormsComposeAndDecompose) {
  const UnicodeForm nfc{true, false}, nfd{false, false}, nfkc{true, true}, nfkd{false, true};
  EXPECT_EQ(normalized("e\xCC\x81", nfc), "\xC3\xA9");
  EXPECT_EQ(normalized("\xC3\xA9", nfd), "e\xCC\x81");
  EXPECT_EQ(normalized("\xEF\xAC\x81", nfkc), "fi");
  EXPECT_EQ(normalized("\xEF\xAC\x81", nfc), "\xEF\xAC\x81");
  EXPECT_EQ(normalized("\xED\x95\x9C", nfkd), "\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB") << "a Korean syllable";
  EXPECT_EQ(normalized("\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB", nfkc), "\xED\x95\x9C");
  EXPECT_EQ(normalized("a\xCC\x81\xCC\xA3", nfd), "a\xCC\xA3\xCC\x81") << "marks in the order of their classes";
}

// No piece of a text may begin with a character that composes with the one before it.
TEST(Unicode, PiecesOfATextBeginAtBoundaries) {
  const UnicodeForm nfc{true, false}, nfkc{true, true};
  EXPECT_TRUE(is_boundary('a', nfc));
  EXPECT_FALSE(is_boundary(0x301, nfc));
  EXPECT_FALSE(is_boundary(0x11A8, nfc));
  EXPECT_TRUE(is_boundary(0xFF9E, nfc));
  EXPECT_FALSE(is_boundary(0xFF9E, nfkc)) << "a half-width sound mark";
  EXPECT_FALSE(is_boundary(0x314F, nfkc)) << "a Korean vowel";
}

TEST(Unicode, KindsOfCharacters) {
  EXPECT_TRUE(is_white_space(0x3000) && is_white_space(0x85) && is_white_space('\v'));
  EXPECT_FALSE(is_white_space(0x200B) || is_white_space(0x180E));
  EXPECT_TRUE(is_numeric(0xBD) && is_numeric(0x2160) && is_numeric(0x663));
  EXPECT_TRUE(is_punctuation('$') && is_punctuation(0x3002));
  EXPECT_FALSE(is_punctuation(0x20AC));
  EXPECT_TRUE(is_mark(0x903) && !is_nonspacing_mark(0x903) && is_nonspacing_mark(0x301));
  EXPECT_TRUE(is_control(0xAD) && is_control(0xE000) && !is_control('\n'));
  EXPECT_TRUE(is_ideograph(0x6F22) && !is_ideograph(0x3042));
  EXPECT_EQ(lowercase(0x130), "i\xCC\x87");
  EXPECT_EQ(lowercase(0x3A3), "\xCF\x83");
}

TEST(Unicode, GraphemesHoldTheirMarks) {
  EXPECT_THAT(grapheme_ends("ae\xCC\x81\r\n"), ElementsAre(1, 4, 6));
  EXPECT_THAT(grapheme_ends(""), ElementsAre());
}

}  // namespace
}  // namespace moesh::tokenizer
