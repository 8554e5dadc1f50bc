// Where batches come from: what each reader gives, and what it refuses.
#include <cstring>
#include <filesystem>
#include <set>

#include <gmock/gmock.h>

#include "config/load.h"
#include "tests/support.h"
#include "train/data.h"

namespace moesh::train {
namespace {

using test::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Tokens = std::vector<std::int32_t>;

std::unique_ptr<TokenSource> source(const std::string& request, std::int64_t rows = 4) {
  return open_source(config::load(test::words_of(request)).settings, rows);
}

std::unique_ptr<TokenSource> file(const std::string& type, const std::string& path) {
  return source("dataset_type=" + type + " dataset_path=" + path);
}

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

TEST(Data, SyntheticTokensAreTheSameAtEveryStepAndSpreadOverTheVocabulary) {
  const auto tokens = source("dataset_type=synthetic vocab_size=50", 3);
  std::set<std::int32_t> seen;
  for (std::int64_t row = 0; row < 3; ++row) {
    const Tokens first = tokens->row(row, 200);
    EXPECT_EQ(first, tokens->row(row + 3, 200));
    EXPECT_NE(first, tokens->row((row + 1) % 3, 200));
    seen.insert(first.begin(), first.end());
  }
  EXPECT_EQ(seen.size(), 50u);
  EXPECT_EQ(*seen.begin(), 0);
  EXPECT_EQ(*seen.rbegin(), 49);
}

TEST(Data, TextIsItsBytesInRowsThatOverlapByOneTokenRoundAndRound) {
  const test::TemporaryFolder folder;
  const auto text = file("text", folder.write("a.txt", "abcdefg\xff"));
  EXPECT_THAT(text->row(0, 4), ElementsAre('a', 'b', 'c', 'd'));
  EXPECT_THAT(text->row(1, 4), ElementsAre('d', 'e', 'f', 'g'));
  EXPECT_THAT(text->row(2, 4), ElementsAre('g', 255, 'a', 'b'));
  EXPECT_THAT(text->row(8, 4), ElementsAre('a', 'b', 'c', 'd'));
  EXPECT_THAT(text->describe(), HasSubstr("8 tokens"));
}

TEST(Data, TextShorterThanARowIsRepeatedWithinIt) {
  const test::TemporaryFolder folder;
  EXPECT_THAT(file("text", folder.write("a.txt", "ab"))->row(0, 5), ElementsAre('a', 'b', 'a', 'b', 'a'));
}

TEST(Data, JsonLinesGiveTheirTextsEachWithAZeroBehind) {
  const test::TemporaryFolder folder;
  const auto texts =
      file("jsonl", folder.write("a.jsonl", "{\"text\": \"ab\", \"id\": 3}\n\n  \r\n{\"text\": \"\\u00e9\"}\n"));
  EXPECT_THAT(texts->row(0, 6), ElementsAre('a', 'b', 0, 0xc3, 0xa9, 0));
}

TEST(Data, JsonLinesAreRefusedWithTheNumberOfTheBadOne) {
  const test::TemporaryFolder folder;
  for (const char* line :
       {"{\"text\": 3}", "{\"txt\": \"a\"}", "[\"text\"]", "{\"text\": \"a\"", "text", "\"text\"", "null"}) {
    const std::string path = folder.write("a.jsonl", std::string("{\"text\": \"a\"}\n") + line + "\n");
    EXPECT_EQ(message_of([&] { file("jsonl", path); }), path + ":2: a line that is no JSON object with a \"text\"")
        << line;
  }
  const std::string blank = folder.write("b.jsonl", "\n \n");
  EXPECT_EQ(message_of([&] { file("jsonl", blank); }), blank + ": no line holds text");
}

TEST(Data, TokensAreReadAsInt32OrByTheEndingAsUint16) {
  const test::TemporaryFolder folder;
  const auto wide = file("tokens", folder.write("a.bin", bytes_of<std::int32_t>({7, 70000, 0})));
  EXPECT_THAT(wide->row(0, 3), ElementsAre(7, 70000, 0));
  const auto narrow = file("tokens", folder.write("a.u16", bytes_of<std::uint16_t>({7, 65535, 0})));
  EXPECT_THAT(narrow->row(0, 3), ElementsAre(7, 65535, 0));
}

TEST(Data, TokensThatAreCutShortAreRefused) {
  const test::TemporaryFolder folder;
  const std::string wide = folder.write("a.bin", "abcdef");
  EXPECT_EQ(message_of([&] { file("tokens", wide); }), wide + ": 6 bytes are no whole number of 4-byte tokens");
  const std::string narrow = folder.write("a.u16", "abc");
  EXPECT_EQ(message_of([&] { file("tokens", narrow); }), narrow + ": 3 bytes are no whole number of 2-byte tokens");
}

TEST(Data, FilesThatAreNotThereOrEmptyAreRefused) {
  const test::TemporaryFolder folder;
  const std::string empty = folder.write("empty", "");
  for (const char* type : {"text", "jsonl", "tokens"}) {
    EXPECT_THAT(message_of([&] { file(type, folder.path() + "/absent"); }), HasSubstr("/absent: no such file"));
    EXPECT_EQ(message_of([&] { file(type, empty); }),
              empty + ": the file is empty\n  fix: name a file with something in it");
    EXPECT_THAT(message_of([&] { source(std::string("dataset_type=") + type); }), HasSubstr("dataset_path is empty"));
  }
}

TEST(Data, AFolderIsReadByNameAndMustHoldText) {
  const test::TemporaryFolder folder;
  folder.write("b", "bd");
  folder.write("a", "ac");
  folder.write("empty", "");
  const auto rows = source("dataset_type=text dataset_path=" + folder.path());
  EXPECT_EQ(rows->row(0, 4), (std::vector<std::int32_t>{'a', 'c', 'b', 'd'}));
  const test::TemporaryFolder nothing;
  EXPECT_THAT(message_of([&] { file("text", nothing.path()); }), HasSubstr("the folder holds no files with text"));
  EXPECT_THAT(message_of([&] { file("tokens", nothing.path()); }), HasSubstr(": no such file"));
}

// A file with a hole takes no room.
TEST(Data, FilesTooLargeToBeReadWholeAreRefused) {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("large", "x");
  std::filesystem::resize_file(path, (std::uintmax_t{4} << 30) + 1);
  EXPECT_THAT(message_of([&] { file("text", path); }), HasSubstr(" are read whole"));
}

TEST(Data, OtherSourcesAreRefusedWithAWayOut) {
  const std::string message = message_of([] { source("dataset_type=tfds"); });
  EXPECT_THAT(message, HasSubstr("dataset_type=tfds is not read by moesh"));
  EXPECT_THAT(message, HasSubstr("dataset_type=synthetic"));
}

// Rows 0, 1, 2, ... that count on from their own number times 100.
class Counting : public TokenSource {
 public:
  std::string describe() const override { return "counting"; }
  Tokens row(std::int64_t row, std::int64_t length) const override {
    Tokens tokens;
    for (std::int64_t i = 0; i < length; ++i) tokens.push_back(static_cast<std::int32_t>(row * 100 + i));
    return tokens;
  }
};

Tokens values_of(const run::Array& array) {
  return {array.as<std::int32_t>(), array.as<std::int32_t>() + array.view.count()};
}

TEST(Batch, HasTargetsOneTokenAheadOfInputs) {
  const auto pool = run::Pool::create();
  const Batch batch = make_batch(Counting(), 0, 2, 2, 3, 1000, *pool);
  EXPECT_THAT(values_of(batch.at("inputs")), ElementsAre(0, 1, 2, 100, 101, 102));
  EXPECT_THAT(values_of(batch.at("targets")), ElementsAre(1, 2, 3, 101, 102, 103));
  EXPECT_THAT(values_of(batch.at("inputs_position")), ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_THAT(values_of(batch.at("inputs_segmentation")), ElementsAre(1, 1, 1, 1, 1, 1));
  EXPECT_THAT(values_of(batch.at("targets_segmentation")), ElementsAre(1, 1, 1, 1, 1, 1));
  for (const auto& [name, array] : batch) EXPECT_EQ(array.view.shape, (Shape{2, 3})) << name;
}

// Of four rows that are loaded a step the first two are trained.
TEST(Batch, GoesOnWhereTheLastStepsLoadingEnded) {
  const auto pool = run::Pool::create();
  EXPECT_THAT(values_of(make_batch(Counting(), 3, 4, 2, 2, 10000, *pool).at("inputs")),
              ElementsAre(1200, 1201, 1300, 1301));
}

TEST(Batch, RefusesTokensThatTheVocabularyLacks) {
  const auto pool = run::Pool::create();
  EXPECT_EQ(message_of([&] { make_batch(Counting(), 0, 2, 2, 3, 103, *pool); }),
            "the data: token 103 in row 1, the vocabulary has 103\n"
            "  fix: raise vocab_size, or use the data that belongs to this model");
  EXPECT_EQ(message_of([&] { make_batch(Counting(), 0, 2, 2, 3, 104, *pool); }), "no error");
  const test::TemporaryFolder folder;
  const auto negative = file("tokens", folder.write("a.bin", bytes_of<std::int32_t>({1, -2, 3})));
  EXPECT_THAT(message_of([&] { make_batch(*negative, 0, 1, 1, 2, 100, *pool); }), HasSubstr("token -2 in row 0"));
}

}  // namespace
}  // namespace moesh::train
