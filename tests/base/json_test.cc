// The output of the JSON writer, read back by an independent JSON library.
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace moesh {
namespace {

using nlohmann::json;

TEST(JsonWriter, WritesNestedObjectsAndLists) {
  JsonWriter writer;
  writer.begin_object()
      .key("a")
      .begin_array()
      .value(1)
      .begin_object()
      .end_object()
      .begin_array()
      .end_array()
      .null()
      .end_array();
  writer.key("b").begin_object().key("c").value(true).key("d").value(false).end_object().end_object();
  EXPECT_EQ(json::parse(writer.text()), json::parse(R"({"a": [1, {}, [], null], "b": {"c": true, "d": false}})"));
}

TEST(JsonWriter, WritesBytesThatAreNoCharacterAsOneThatSaysSo) {
  JsonWriter writer;
  writer.value("a\xFF\xC3(\xE2\x82");
  EXPECT_EQ(json::parse(writer.text()), json("a\uFFFD\uFFFD(\uFFFD\uFFFD"));
}

TEST(JsonWriter, EscapesWhatTextMayNotHold) {
  std::string every;
  for (int c = 1; c < 128; ++c) every += static_cast<char>(c);
  every += std::string(1, '\0') + "é😀";
  JsonWriter writer;
  writer.begin_object().key(every).value(every).end_object();
  EXPECT_EQ(json::parse(writer.text()), json({{every, every}}));
}

TEST(JsonWriter, KeepsEveryDigitOfANumber) {
  for (const double d : {0.1, 1.0, -1e300, 5e-324, 1.0 / 3}) {
    JsonWriter writer;
    writer.begin_array().value(d).end_array();
    EXPECT_EQ(json::parse(writer.text())[0].get<double>(), d);
  }
  for (const std::int64_t i :
       {std::int64_t{0}, std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}) {
    JsonWriter writer;
    writer.begin_array().value(i).end_array();
    EXPECT_EQ(json::parse(writer.text())[0].get<std::int64_t>(), i);
  }
}

TEST(JsonWriter, WritesNullForWhatIsNoNumber) {
  JsonWriter writer;
  writer.begin_array()
      .value(std::numeric_limits<double>::quiet_NaN())
      .value(std::numeric_limits<double>::infinity())
      .end_array();
  EXPECT_EQ(json::parse(writer.text()), json::parse("[null, null]"));
}

TEST(JsonWriter, WritesListsAndReadyJson) {
  JsonWriter writer;
  writer.begin_object()
      .key("a")
      .values(std::vector<std::string>{"x", "y"})
      .key("b")
      .values(std::vector<std::int64_t>{});
  writer.key("c").raw("{\"d\": 1}").key("e").value("text").end_object();
  EXPECT_EQ(json::parse(writer.text()), json::parse(R"({"a": ["x", "y"], "b": [], "c": {"d": 1}, "e": "text"})"));
}

TEST(JsonWriter, BreaksLinesWhereItIsTold) {
  JsonWriter writer;
  writer.begin_array().line().value(1).line().value(2).line().end_array();
  EXPECT_EQ(writer.text(), "[\n1,\n2\n]");
}

TEST(NestsDeeper, CountsListsAndMappingsOutsideStrings) {
  EXPECT_FALSE(nests_deeper(R"({"a": [1, [2]], "b": [3]})", 3));
  EXPECT_TRUE(nests_deeper(R"({"a": [1, [2]], "b": [3]})", 2));
  EXPECT_FALSE(nests_deeper(R"(["[[[", "\"[[[", {}])", 2));
  EXPECT_TRUE(nests_deeper(R"(["\\", [[]]])", 2));
  EXPECT_FALSE(nests_deeper("", 0));
}

}  // namespace
}  // namespace moesh
