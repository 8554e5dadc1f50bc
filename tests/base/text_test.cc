// Splitting and joining words, and parsing and printing numbers and units.
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/shape.h"
#include "base/text.h"

namespace moesh {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(Text, SplitsAndJoins) {
  EXPECT_THAT(split("a,b,,c", ','), ElementsAre("a", "b", "", "c"));
  EXPECT_THAT(split("", ','), ElementsAre(""));
  EXPECT_EQ(join({"a", "b", "c"}, " x "), "a x b x c");
  EXPECT_EQ(join({}, ","), "");
}

TEST(Text, TrimsAndLowers) {
  EXPECT_EQ(trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(trim(" \n "), "");
  EXPECT_EQ(lower("AbZ-É"), "abz-É") << "ASCII only";
}

TEST(Text, ReadsWholeIntegersOnly) {
  EXPECT_EQ(parse_integer("12"), 12);
  EXPECT_EQ(parse_integer("-12"), -12);
  EXPECT_EQ(parse_integer("+12"), 12);
  EXPECT_EQ(parse_integer("1_000_000"), 1'000'000);
  EXPECT_EQ(parse_integer("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(parse_integer("-9223372036854775808"), std::numeric_limits<std::int64_t>::min());
  for (const char* text :
       {"", "+", "-", "_", "_1", "1_", "1__0", "-_1", "1.0", "1e3", " 1", "1 ", "0x1", "9223372036854775808", "one"}) {
    EXPECT_FALSE(parse_integer(text).has_value()) << text;
  }
}

TEST(Text, RefusesTwoSigns) {
  EXPECT_FALSE(parse_integer("+-1").has_value());
  EXPECT_FALSE(parse_real("+-1.5").has_value());
}

TEST(Text, ReadsWholeFiniteNumbersOnly) {
  EXPECT_EQ(parse_real("1.5"), 1.5);
  EXPECT_EQ(parse_real("-1e-3"), -1e-3);
  EXPECT_EQ(parse_real("1_000"), 1000.0);
  EXPECT_EQ(parse_real("+.5"), 0.5);
  for (const char* text : {"", "nan", "inf", "-inf", "infinity", "1e999", "1.5x", " 1", "1,5", "0x1p3", "+", "."}) {
    EXPECT_FALSE(parse_real(text).has_value()) << text;
  }
}

TEST(Text, GivesBytesAUnit) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1024), "1.00 KiB");
  EXPECT_EQ(human_bytes(1536), "1.50 KiB");
  EXPECT_EQ(human_bytes(10 * 1024.0 * 1024), "10.0 MiB");
  EXPECT_EQ(human_bytes(3.0 * (1LL << 60)), "3.00 EiB");
  EXPECT_EQ(human_bytes(5000.0 * (1LL << 60)), "5000.0 EiB") << "the last unit takes all the rest";
}

TEST(Text, GivesCountsAUnit) {
  EXPECT_EQ(human_count(0), "0");
  EXPECT_EQ(human_count(1234), "1,234");
  EXPECT_EQ(human_count(999'999), "999,999");
  EXPECT_EQ(human_count(1'000'000), "1.00 M");
  EXPECT_EQ(human_count(46.7e9), "46.7 B");
  EXPECT_EQ(human_count(671e9), "671.0 B");
}

TEST(Text, PutsCommasBetweenThousands) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(1000), "1,000");
  EXPECT_EQ(with_commas(-1234567), "-1,234,567");
  EXPECT_EQ(with_commas(-123), "-123");
  EXPECT_EQ(with_commas(std::numeric_limits<std::int64_t>::min()), "-9,223,372,036,854,775,808");
}

TEST(Text, FindsTheNearestWords) {
  const std::vector<std::string> words{"fsdp", "tensor", "expert", "context_autoregressive"};
  EXPECT_THAT(nearest("fdsp", words), ElementsAre("fsdp"));
  EXPECT_THAT(nearest("EXPERT", words), ElementsAre("expert"));
  EXPECT_THAT(nearest("regressive", words), ElementsAre("context_autoregressive")) << "a part of a long name";
  EXPECT_THAT(nearest("something", words), IsEmpty());
  EXPECT_THAT(nearest("aa", {"ab", "ac", "ad", "aa"}, 2), ElementsAre("aa", "ab"));
  EXPECT_THAT(nearest("", words), IsEmpty());
}

TEST(Text, KnowsValidUtf8) {
  for (const char* text : {"", "abc", "é", "€", "😀", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"})
    EXPECT_TRUE(is_valid_utf8(text)) << text;
  const std::vector<std::string> invalid{
      "\x80", "\xc3",     "\xc0\xaf", "\xe0\x80\x80",    "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80",
      "\xff", "\xe2\x82", "a\xc3(",   "\xf0\x80\x80\x80"};
  for (const std::string& text : invalid) EXPECT_FALSE(is_valid_utf8(text));
}

TEST(Text, CountsColumnsAndCutsAtThem) {
  EXPECT_EQ(display_width("aé😀"), 3);
  EXPECT_EQ(shorten("abcdef", 6), "abcdef");
  EXPECT_EQ(shorten("abcdef", 4), "abc…");
  EXPECT_EQ(shorten("ééééé", 3), "éé…");
  EXPECT_EQ(shorten_start("abcdef", 6), "abcdef");
  EXPECT_EQ(shorten_start("abcdef", 4), "…def");
  EXPECT_EQ(shorten_start("ééééé", 3), "…éé");
}

TEST(DTypes, HaveNamesAndSizes) {
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float64, DType::int32, DType::boolean}) {
    EXPECT_EQ(parse_dtype(name_of(dtype)), dtype);
  }
  EXPECT_FALSE(parse_dtype("float16").has_value());
  EXPECT_EQ(size_of(DType::bfloat16), 2);
  EXPECT_EQ(size_of(DType::boolean), 1);
  EXPECT_TRUE(is_floating(DType::bfloat16));
  EXPECT_FALSE(is_floating(DType::int32));
}

TEST(Shapes, CountTheirElements) {
  EXPECT_EQ(elements({}), 1);
  EXPECT_EQ(elements({2, 3, 4}), 24);
  EXPECT_EQ(elements({2, 0}), 0);
  EXPECT_EQ(to_string(Shape{8, 2048}), "[8, 2048]");
  EXPECT_EQ(to_string(Shape{}), "[]");
}

TEST(Counted, GivesTheNounItsNumber) {
  EXPECT_EQ(counted(0, "error"), "0 errors");
  EXPECT_EQ(counted(1, "warning"), "1 warning");
  EXPECT_EQ(counted(1234, "remark"), "1,234 remarks");
}

TEST(Units, SayHowLongItTook) {
  EXPECT_EQ(human_seconds(0.00042), "0.42 ms");
  EXPECT_EQ(human_seconds(0.25), "250 ms");
  EXPECT_EQ(human_seconds(3.14), "3.14 s") << "steps differ in the third digit";
  EXPECT_EQ(human_seconds(31.4), "31.4 s");
  EXPECT_EQ(human_seconds(725), "12:05 min");
  EXPECT_EQ(human_seconds(170.906), "2:51 min") << "rounded, like shorter times";
  EXPECT_EQ(human_seconds(12000), "3:20:00 h");
}

TEST(Wrapped, BreaksLinesAtBlanks) {
  EXPECT_EQ(wrapped("one two three four\nfive", 9), "one two\nthree\nfour\nfive");
  EXPECT_EQ(wrapped("  one two three", 9, 2), "  one two\n    three");
  EXPECT_EQ(wrapped("a-very-long-word b", 5), "a-very-long-word\nb");
  EXPECT_EQ(wrapped("as it is, however long", 0), "as it is, however long");
  EXPECT_EQ(wrapped("ends here\n", 40), "ends here\n");
}

TEST(Errors, SayWhereWhatAndTheFix) {
  EXPECT_STREQ(Error({Fault::bad_request, "what", "where", "fix"}).what(), "where: what\n  fix: fix");
  EXPECT_STREQ(Error({Fault::bad_request, "what", "", ""}).what(), "what");
}

TEST(Errors, GiveTheExitCode) {
  EXPECT_EQ(Error({Fault::bad_request, "a", "", ""}).exit_code(), 2);
  EXPECT_EQ(Error({Fault::failed, "a", "", ""}).exit_code(), 1);
  EXPECT_THROW(refuse("a"), Error);
  try {
    fail("a", "b", "c");
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 1);
    EXPECT_EQ(error.parts().where, "b");
  }
}

}  // namespace
}  // namespace moesh
