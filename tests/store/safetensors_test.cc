// Safetensors files: what is read, and what is said about files that are cut short or inconsistent.
#include <cstring>
#include <filesystem>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "store/safetensors.h"
#include "tests/store/safetensors_support.h"
#include "tests/support.h"

namespace moesh::store {
namespace {

using test::bytes_of;
using test::message_of;
using test::safetensors;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::map<std::string, StoredTensor> parse(const std::string& bytes) {
  return parse_safetensors(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size(), "f");
}

std::string safetensors_refusal(const std::string& bytes) {
  return message_of([&] { parse(bytes); });
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"w":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

TEST(Safetensors, AreReadWhateverTheTypeIs) {
  const auto values_of = [](const std::string& dtype, const std::string& bytes) {
    const std::string size = std::to_string(bytes.size());
    const std::string file = safetensors(entry("\"" + dtype + "\"", "[2]", "[0," + size + "]"), bytes);
    return parse(file).at("w").values();
  };
  const std::vector<double> expected{1, 3};
  EXPECT_EQ(values_of("F32", bytes_of<float>({1, 3})), expected);
  EXPECT_EQ(values_of("F64", bytes_of<double>({1, 3})), expected);
  EXPECT_EQ(values_of("I32", bytes_of<std::int32_t>({1, 3})), expected);
  EXPECT_EQ(values_of("BF16", bytes_of<std::uint16_t>({0x3F80, 0x4040})), expected);
  EXPECT_EQ(values_of("BOOL", std::string("\1\0", 2)), (std::vector<double>{1, 0}));
}

TEST(Safetensors, MayHoldEmptyTensorsScalarsAndMetadata) {
  const std::string file =
      safetensors(R"({"__metadata__":{"format":"pt"},"none":{"dtype":"F32","shape":[0,3],)"
                  R"("data_offsets":[0,0]},"one":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})",
                  bytes_of<float>({7}));
  const auto tensors = parse(file);
  EXPECT_EQ(tensors.size(), 2u);
  EXPECT_TRUE(tensors.at("none").values().empty());
  EXPECT_EQ(tensors.at("one").values(), std::vector<double>{7});
}

TEST(Safetensors, AreRefusedWhenTheHeaderIsCutShort) {
  EXPECT_EQ(safetensors_refusal("1234567"), "f: 7 bytes, too few for a safetensors header");
  EXPECT_EQ(safetensors_refusal(test::length_word(100) + "{}"),
            "f: the header says 100 bytes, the file has 2\n  fix: the file is cut short or no safetensors file");
  EXPECT_THAT(safetensors_refusal(test::length_word(~std::uint64_t{0}) + "{}"), HasSubstr("the header says 18446744073709551615"));
}

TEST(Safetensors, AreRefusedWhenTheHeaderIsNoMapping) {
  for (const char* header : {"[]", "", "{", "{} x", "1", "{\"a\": \"\xff\"}"}) {
    EXPECT_EQ(safetensors_refusal(safetensors(header, "")), "f: the header is no JSON object") << header;
  }
}

TEST(Safetensors, AreRefusedWhenTheHeaderIsNestedTooDeep) {
  EXPECT_EQ(safetensors_refusal(safetensors("{\"a\":" + std::string(1'000'000, '[') + std::string(1'000'000, ']') + "}", "")),
            "f: the header nests values more than 4 deep");
}

TEST(Safetensors, AreRefusedWhenAnEntryIsIncomplete) {
  for (const char* header :
       {R"({"w":1})", R"({"w":{"dtype":"F32","shape":[1]}})", R"({"w":{"dtype":1,"shape":[1],"data_offsets":[0,4]}})",
        R"({"w":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})",
        R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4,4]}})"}) {
    EXPECT_EQ(safetensors_refusal(safetensors(header, "1234")), "f: w: an entry without dtype, shape and two data_offsets");
  }
}

TEST(Safetensors, AreRefusedForATypeThatIsNotRead) {
  EXPECT_EQ(safetensors_refusal(safetensors(entry("\"F8_E5M2\"", "[1]", "[0,1]"), "1")),
            "f: w: dtype \"F8_E5M2\", one of F32, BF16, F64, I32, BOOL, F16, F8_E4M3, U8, I64 was expected");
  EXPECT_THAT(safetensors_refusal(safetensors(entry("\"" + std::string(10'000, 'x') + "\"", "[1]", "[0,1]"), "1")),
              StartsWith("f: w: dtype \"" + std::string(58, 'x') + "…, one of"));
}

TEST(Safetensors, AreRefusedForSizesThatAreNone) {
  for (const char* size : {"-1", "1.5", "\"1\"", "281474976710657", "[1]"}) {
    EXPECT_EQ(safetensors_refusal(safetensors(entry("\"F32\"", "[" + std::string(size) + "]", "[0,4]"), "1234")),
              "f: w: a size that is no size: " + std::string(size));
  }
  EXPECT_EQ(safetensors_refusal(safetensors(entry("\"F32\"", "[281474976710656,281474976710656]", "[0,4]"), "1234")),
            "f: w: a shape that no file can hold: [281474976710656, 281474976710656]");
}

TEST(Safetensors, AreRefusedForMoreDimsThanAnyTensorHas) {
  std::string shape = "[1";
  for (int i = 0; i < 100'000; ++i) shape += ",1";
  EXPECT_EQ(safetensors_refusal(safetensors(entry("\"F32\"", shape + "]", "[0,4]"), "1234")),
            "f: w: 100001 dims, at most 32 were expected");
}

TEST(Safetensors, AreRefusedForOffsetsThatDoNotFit) {
  for (const char* offsets : {"[-1,4]", "[0,4.5]", "[0,\"4\"]"}) {
    EXPECT_EQ(safetensors_refusal(safetensors(entry("\"F32\"", "[1]", offsets), "1234")), "f: w: data_offsets that are no offsets");
  }
  EXPECT_EQ(safetensors_refusal(safetensors(entry("\"F32\"", "[2]", "[0,8]"), "1234")),
            "f: w: data_offsets [0, 8) of 4 bytes, 8 were expected for [2]\n  fix: the file is cut short or damaged");
  EXPECT_THAT(safetensors_refusal(safetensors(entry("\"F32\"", "[1]", "[4,0]"), "1234")), HasSubstr("data_offsets [4, 0)"));
  EXPECT_THAT(safetensors_refusal(safetensors(entry("\"F32\"", "[1]", "[18446744073709551612,0]"), "1234")),
              HasSubstr("data_offsets [18446744073709551612, 0)"));
}

// As safetensors' own library does.
TEST(Safetensors, AreRefusedWhenBytesAreOfNoTensorOrOfTwo) {
  const auto two = [](int a, int b) {
    const auto one = [](char name, int begin) {
      return fmt::format(R"("{}":{{"dtype":"F32","shape":[1],"data_offsets":[{},{}]}})", name, begin, begin + 4);
    };
    return "{" + one('v', a) + "," + one('w', b) + "}";
  };
  const auto refused = [&](int a, int b, std::size_t bytes) { return safetensors_refusal(safetensors(two(a, b), std::string(bytes, '1'))); };
  EXPECT_EQ(refused(0, 4, 8), "no error");
  EXPECT_EQ(refused(4, 0, 8), "no error");
  const std::string fix = "\n  fix: the file is damaged: take it again";
  EXPECT_EQ(refused(0, 4, 9), "f: bytes 8 to 9 behind the header belong to no tensor" + fix);
  EXPECT_EQ(refused(0, 6, 10), "f: bytes 4 to 6 behind the header belong to no tensor" + fix);
  EXPECT_EQ(refused(1, 5, 9), "f: bytes 0 to 1 behind the header belong to no tensor" + fix);
  EXPECT_EQ(refused(0, 2, 6), "f: bytes 2 to 4 behind the header belong to two tensors" + fix);
  EXPECT_EQ(refused(0, 0, 4), "f: bytes 0 to 4 behind the header belong to two tensors" + fix);
}

TEST(Safetensors, ShortenTheNameOfAnEntry) {
  const std::string name(10'000, 'n');
  EXPECT_EQ(safetensors_refusal(safetensors("{\"" + name + "\":1}", "")),
            "f: " + std::string(79, 'n') + "…: an entry without dtype, shape and two data_offsets");
}

TEST(SafetensorsFile, IsMappedAndItsTensorsAreFoundByName) {
  const test::TemporaryFolder folder;
  const std::string path =
      folder.write("a.safetensors", safetensors(entry("\"F32\"", "[1]", "[0,4]"), bytes_of<float>({5})));
  const TensorFile file = read_safetensors(path);
  EXPECT_TRUE(file.has("w"));
  EXPECT_FALSE(file.has("v"));
  EXPECT_EQ(file.at("w").values(), std::vector<double>{5});
  EXPECT_EQ(message_of([&] { file.at("ww"); }), path + ": no tensor 'ww'\n  fix: near ones are w");
  EXPECT_EQ(message_of([&] { file.at("something else"); }), path + ": no tensor 'something else'");
}

TEST(SafetensorsFile, IsRefusedWhenItIsNone) {
  const test::TemporaryFolder folder;
  const auto refusal_of = [](const std::string& path) { return message_of([&] { read_safetensors(path); }); };
  const std::string absent = folder.path() + "/none";
  const std::string fix = "\n  fix: name a safetensors file that you may read", why = ": the safetensors file cannot be read: ";
  EXPECT_EQ(refusal_of(absent), absent + why + "No such file or directory" + fix);
  const std::string empty = folder.write("empty", "");
  EXPECT_EQ(refusal_of(empty), empty + ": 0 bytes, too few for a safetensors header");
  const std::string pipe = folder.path() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {folder.path(), pipe, std::string("/dev/zero")})
    EXPECT_EQ(refusal_of(path), path + why + "it is no file" + fix);
}

// What the system says of the file is passed on, with what helps against that.
TEST(SafetensorsFile, SaysWhyTheSystemDoesNotGiveIt) {
  const test::TemporaryFolder folder;
  const std::string closed = folder.write("closed", "x");
  ::chmod(closed.c_str(), 0);
  {
    const test::AnotherUser other;
    EXPECT_THAT(message_of([&] { read_safetensors(closed); }),
                ::testing::HasSubstr("the safetensors file cannot be read: Permission denied"));
  }
  // A file in memory that takes none: larger than any address space.
  const Descriptor huge(::memfd_create("huge", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(huge.number(), std::int64_t{1} << 50), 0);
  const std::string path = fmt::format("/proc/self/fd/{}", huge.number());
  EXPECT_EQ(message_of([&] { read_safetensors(path); }),
            path +
                ": its 1,125,899,906,842,624 bytes cannot be mapped: Cannot allocate memory\n"
                "  fix: raise the limit of address space (ulimit -v), or take a disk whose files can be mapped");
}

}  // namespace
}  // namespace moesh::store
