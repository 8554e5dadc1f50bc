// Files of tensors: what is read, and every way in which a file may lie.
#include <gmock/gmock.h>

#include "tests/train/train_support.h"
#include "train/safetensors.h"

namespace moesh::train {
namespace {

using test::message_of;
using test::safetensors;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::map<std::string, StoredTensor> parse(const std::string& bytes) {
  return parse_safetensors(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size(), "file");
}

std::string refusal(const std::string& header, const std::string& data = std::string(8, '\0')) {
  return message_of([&] { parse(safetensors(header, data)); });
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return "{\"x\": {\"dtype\": " + dtype + ", \"shape\": " + shape + ", \"data_offsets\": " + offsets + "}}";
}

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

TEST(Safetensors, GivesTheTensorsOfAFileAsNumbers) {
  const std::string data = bytes_of<float>({1.5f, -2, 3}) + bytes_of<std::int32_t>({7, -8}) + bytes_of<double>({0.1}) +
                           bytes_of<std::uint16_t>({0x3FC0, 0xC000}) + std::string("\1\0", 2);
  const std::string bytes = safetensors(
      R"({"__metadata__": {"format": "np"},
          "wide": {"dtype": "F32", "shape": [3, 1], "data_offsets": [0, 12]},
          "ids": {"dtype": "I32", "shape": [2], "data_offsets": [12, 20]},
          "double": {"dtype": "F64", "shape": [], "data_offsets": [20, 28]},
          "narrow": {"dtype": "BF16", "shape": [2], "data_offsets": [28, 32]},
          "flags": {"dtype": "BOOL", "shape": [2], "data_offsets": [32, 34]},
          "none": {"dtype": "F32", "shape": [0, 5], "data_offsets": [34, 34]}})",
      data);
  const auto tensors = parse(bytes);
  EXPECT_EQ(tensors.size(), 6u);
  EXPECT_EQ(tensors.at("wide").shape, (Shape{3, 1}));
  EXPECT_THAT(tensors.at("wide").values(), ElementsAre(1.5, -2, 3));
  EXPECT_THAT(tensors.at("ids").values(), ElementsAre(7, -8));
  EXPECT_THAT(tensors.at("double").values(), ElementsAre(0.1));
  EXPECT_THAT(tensors.at("narrow").values(), ElementsAre(1.5, -2));
  EXPECT_THAT(tensors.at("flags").values(), ElementsAre(1, 0));
  EXPECT_TRUE(tensors.at("none").values().empty());
}

TEST(Safetensors, RefusesAHeaderThatIsNone) {
  EXPECT_EQ(message_of([] { parse("short"); }), "file: 5 bytes, too few for a safetensors header");
  EXPECT_THAT(message_of([] { parse(std::string(8, '\xff')); }),
              HasSubstr("the header says 18446744073709551615 bytes, the file has 0"));
  EXPECT_THAT(message_of([] { parse(safetensors("{}", "").substr(0, 9)); }),
              HasSubstr("the header says 2 bytes, the file has 1"));
  EXPECT_EQ(refusal("[]"), "file: the header is no JSON object");
  EXPECT_EQ(refusal("{"), "file: the header is no JSON object");
  EXPECT_EQ(refusal(""), "file: the header is no JSON object");
}

TEST(Safetensors, RefusesEntriesThatAreNotWhole) {
  const std::string message = "file: x: an entry without dtype, shape and two data_offsets";
  EXPECT_EQ(refusal(R"({"x": 3})"), message);
  EXPECT_EQ(refusal(R"({"x": {"dtype": "F32", "shape": [2]}})"), message);
  EXPECT_EQ(refusal(entry("3", "[2]", "[0, 8]")), message);
  EXPECT_EQ(refusal(entry("\"F32\"", "2", "[0, 8]")), message);
  EXPECT_EQ(refusal(entry("\"F32\"", "[2]", "[0]")), message);
  EXPECT_EQ(refusal(entry("\"F32\"", "[2]", "[0, 8, 9]")), message);
}

TEST(Safetensors, RefusesTypesAndSizesThatItDoesNotKnow) {
  EXPECT_EQ(refusal(entry("\"F16\"", "[4]", "[0, 8]")),
            "file: x: dtype \"F16\", one of F32, BF16, F64, I32, BOOL was expected");
  for (const char* size : {"-1", "2.5", "\"2\"", "562949953421312", "null"}) {
    EXPECT_THAT(refusal(entry("\"F32\"", std::string("[") + size + "]", "[0, 8]")),
                HasSubstr("a size that is no size: "));
  }
  // Each size is one, their product is none: 2^32 * 2^32 is 0 in 64 bits.
  EXPECT_THAT(refusal(entry("\"F32\"", "[4294967296, 4294967296]", "[0, 0]")),
              HasSubstr("a shape that no file can hold: "));
  EXPECT_EQ(message_of([] { parse(safetensors(entry("\"F32\"", "[0, 4294967296, 4294967296]", "[0, 0]"), "")); }),
            "no error");
}

TEST(Safetensors, RefusesOffsetsBeyondTheFileOrUnlikeTheShape) {
  EXPECT_EQ(refusal(entry("\"F32\"", "[2]", "[0, -8]")), "file: x: data_offsets that are no offsets");
  for (const char* offsets : {"[0, 4]", "[4, 12]", "[8, 0]", "[100, 108]", "[18446744073709551608, 0]"}) {
    EXPECT_THAT(refusal(entry("\"F32\"", "[2]", offsets)), HasSubstr(" were expected for [2]")) << offsets;
  }
  EXPECT_EQ(refusal(entry("\"F32\"", "[2]", "[0, 8]")), "no error");
}

TEST(Safetensors, KnowsATensorByItsNameAndNamesNearOnes) {
  const test::TemporaryFolder folder;
  const std::string path =
      folder.write("a.safetensors", safetensors(entry("\"F32\"", "[2]", "[0, 8]"), bytes_of<float>({4, 5})));
  const TensorFile file = read_safetensors(path);
  EXPECT_TRUE(file.has("x"));
  EXPECT_THAT(file.at("x").values(), ElementsAre(4, 5));
  EXPECT_THAT(message_of([&] { file.at("y"); }), HasSubstr("no tensor 'y'"));
}

TEST(Safetensors, RefusesWhatIsNoFile) {
  const test::TemporaryFolder folder;
  EXPECT_THAT(message_of([&] { read_safetensors(folder.path() + "/absent"); }), HasSubstr("the file cannot be opened"));
  EXPECT_THAT(message_of([&] { read_safetensors(folder.path()); }),
              HasSubstr("not a regular file with something in it"));
  EXPECT_THAT(message_of([&] { read_safetensors(folder.write("empty", "")); }),
              HasSubstr("not a regular file with something in it"));
}

}  // namespace
}  // namespace moesh::train
