// Reading fields from JSON that may hold anything.
#include "base/json_reader.h"

#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support.h"

namespace moesh {
namespace {

template <typename T>
std::string refusal_of(const std::string& value) {
  const Json json = parse_json("{\"n\": " + value + "}", "FILE");
  return test::message_of([&] { member<T>(json, "n", "FILE"); });
}

TEST(JsonReader, AWholeNumberIsOneThatItsTypeHolds) {
  for (const char* good : {"0", "7", "-7", "9223372036854775807", "-9223372036854775808"}) EXPECT_EQ(refusal_of<std::int64_t>(good), "no error") << good;
  for (const char* bad : {"9223372036854775808", "46116860184127387904", "1e30", "1.5", "2.0", "true", "null", "\"7\"", "[7]"}) {
    EXPECT_EQ(refusal_of<std::int64_t>(bad), std::string("FILE: 'n' is ") + Json::parse(bad).dump() + ", which is not of the type expected");
    EXPECT_NE(refusal_of<std::vector<std::int64_t>>(std::string("[1, ") + bad + "]"), "no error") << bad;
  }
  EXPECT_NE(refusal_of<int>("2147483648"), "no error");
  EXPECT_NE(refusal_of<std::size_t>("-1"), "no error");
  EXPECT_NE(refusal_of<std::vector<std::int64_t>>("7"), "no error");
  EXPECT_EQ(member<std::vector<std::int64_t>>(parse_json("{\"n\": [1, -2]}", ""), "n", ""), (std::vector<std::int64_t>{1, -2}));
}

TEST(JsonReader, OtherValuesAreReadByTheirType) {
  EXPECT_EQ(refusal_of<double>("7"), "no error");
  EXPECT_EQ(refusal_of<bool>("true"), "no error");
  EXPECT_NE(refusal_of<bool>("1"), "no error");
  EXPECT_EQ(refusal_of<std::vector<std::string>>("[\"a\"]"), "no error");
  EXPECT_NE(refusal_of<std::string>("7"), "no error");
}

}  // namespace
}  // namespace moesh
