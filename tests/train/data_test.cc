// Tokens from each kind of data, and what is said of data that is none.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/load.h"
#include "tests/support.h"
#include "train/data.h"

namespace moesh::train {
namespace {

using test::message_of;
using Tokens = std::vector<std::int32_t>;

std::unique_ptr<TokenSource> open(const std::string& type, const std::string& path) {
  return open_source(config::load({"dataset_type=" + type, "dataset_path=" + path}).settings, 2);
}

std::string refusal(const std::string& type, const std::string& path) {
  return message_of([&] { open(type, path); });
}

TEST(Data, CutsAStreamIntoRowsThatShareATokenAndBeginsAnew) {
  const test::TemporaryFolder folder;
  const auto source = open("text", folder.write("a.txt", "abcde"));
  EXPECT_EQ(source->row(0, 3), (Tokens{'a', 'b', 'c'}));
  EXPECT_EQ(source->row(1, 3), (Tokens{'c', 'd', 'e'}));
  EXPECT_EQ(source->row(2, 3), (Tokens{'e', 'a', 'b'}));
}

TEST(Data, EndsEachTextOfALineWithAZero) {
  const test::TemporaryFolder folder;
  const auto source = open("jsonl", folder.write("a.jsonl", "{\"text\": \"ab\"}\n\n{\"text\": \"c\"}\n"));
  EXPECT_EQ(source->row(0, 5), (Tokens{'a', 'b', 0, 'c', 0}));
}

TEST(Data, ReadsTokensOfTwoWidths) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(open("tokens", folder.write("a.u16", std::string("\1\0\2\1", 4)))->row(0, 2), (Tokens{1, 258}));
  EXPECT_EQ(open("tokens", folder.write("a.bin", std::string("\1\0\0\0\2\0\0\0", 8)))->row(0, 2), (Tokens{1, 2}));
}

TEST(Data, RefusesFilesThatHoldNothing) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(refusal("text", ""), "dataset_path: dataset_path is empty\n  fix: name a file");
  EXPECT_EQ(refusal("text", folder.path()), folder.path() + ": no such file\n  fix: check dataset_path");
  const std::string empty = folder.write("empty", "");
  EXPECT_EQ(refusal("text", empty), empty + ": the file is empty\n  fix: name a file with something in it");
  const std::string blank = folder.write("blank.jsonl", "\n\n");
  EXPECT_EQ(refusal("jsonl", blank), blank + ": no line holds text");
}

TEST(Data, RefusesAHugeFileBeforeItIsRead) {
  const test::TemporaryFolder folder;
  const std::string huge = folder.write("huge", "a");
  std::filesystem::resize_file(huge, std::uintmax_t{5} << 30);
  EXPECT_EQ(refusal("text", huge), huge + ": a file of 5.00 GiB, at most 4.00 GiB are read whole");
}

TEST(Data, RefusesAFileThatCannotBeRead) {
  EXPECT_EQ(refusal("text", "/proc/self/mem"), "/proc/self/mem: the file cannot be read");
}

TEST(Data, RefusesLinesThatAreNoTexts) {
  const test::TemporaryFolder folder;
  for (const char* line : {"{", "[]", "{\"text\": 1}", "{}"}) {
    const std::string path = folder.write("a.jsonl", std::string("{\"text\": \"a\"}\n") + line + "\n");
    EXPECT_EQ(refusal("jsonl", path), path + ":2: a line that is no JSON object with a \"text\"") << line;
  }
}

TEST(Data, RefusesAPartOfAToken) {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("a.bin", "12345");
  EXPECT_EQ(refusal("tokens", path), path + ": 5 bytes are no whole number of 4-byte tokens");
}

TEST(Data, RefusesAKindThatIsNotRead) {
  EXPECT_EQ(
      refusal("tfds", ""),
      "the command line: dataset_type=tfds is not read by moesh\n  fix: dataset_type=synthetic, or text, jsonl or "
      "tokens with dataset_path=FILE");
}

TEST(Batch, HasTargetsOneTokenAhead) {
  const test::TemporaryFolder folder;
  const auto source = open("text", folder.write("a.txt", "abcdefg"));
  const Batch batch = make_batch(*source, 1, 2, 1, 2, 256, *run::Pool::create());
  EXPECT_EQ(batch.at("inputs").as<std::int32_t>()[0], 'e') << "the third row: a step takes two";
  EXPECT_EQ(batch.at("targets").as<std::int32_t>()[0], 'f');
  EXPECT_EQ(batch.at("inputs_position").as<std::int32_t>()[1], 1);
}

TEST(Batch, RefusesATokenBeyondTheVocabulary) {
  const test::TemporaryFolder folder;
  const auto source = open("text", folder.write("a.txt", "abc"));
  EXPECT_EQ(message_of([&] { make_batch(*source, 0, 1, 1, 2, 98, *run::Pool::create()); }),
            "the data: token 98 in row 0, the vocabulary has 98\n"
            "  fix: raise vocab_size, or use the data that belongs to this model");
}

}  // namespace
}  // namespace moesh::train
