// Compares tokenizers of every kind with what the libraries of their formats make of the same texts.
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/paths.h"
#include "tests/support.h"
#include "tokenizer/tokenizer.h"

namespace moesh::tokenizer {
namespace {

const std::filesystem::path kRecorded = test::source_folder() / "tests/golden/tokenizers";

std::vector<std::string> recorded() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kRecorded)) {
    if (entry.is_directory()) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Ids ids_of(const std::vector<Piece>& pieces) {
  Ids ids;
  for (const Piece& piece : pieces) ids.push_back(piece.id);
  return ids;
}

class RecordedTokenizer : public ::testing::TestWithParam<std::string> {};

TEST_P(RecordedTokenizer, MakesTheRecordedIdsAndTexts) {
  const auto tokenizer = open((kRecorded / GetParam()).string());
  const auto expected = nlohmann::json::parse(test::read_text(kRecorded / GetParam() / "expect.json"));
  ASSERT_GT(expected["cases"].size(), 30u);
  for (const auto& one : expected["cases"]) {
    const std::string text = one["text"];
    SCOPED_TRACE(one["text"].dump());
    const Ids ids = one["ids"];
    EXPECT_EQ(tokenizer->encode(text, Special::added), ids);
    EXPECT_EQ(tokenizer->encode(text, Special::left_out), one["ids_plain"].get<Ids>());
    EXPECT_EQ(tokenizer->decode(ids, Special::added), one["decoded"].get<std::string>());
    EXPECT_EQ(tokenizer->decode(ids, Special::left_out), one["decoded_skip"].get<std::string>());
  }
}

// Offsets stay within the text and do not decrease, and the ids are the same with and without offsets.
TEST_P(RecordedTokenizer, TellsWhichBytesATokenStandsFor) {
  const auto tokenizer = open((kRecorded / GetParam()).string());
  const auto expected = nlohmann::json::parse(test::read_text(kRecorded / GetParam() / "expect.json"));
  for (const auto& one : expected["cases"]) {
    const std::string text = one["text"];
    SCOPED_TRACE(one["text"].dump());
    const std::vector<Piece> pieces = tokenizer->pieces(text, Special::added);
    EXPECT_EQ(ids_of(pieces), one["ids"].get<Ids>());
    std::int64_t before = 0;
    for (const Piece& piece : pieces) {
      EXPECT_LE(before, piece.begin);
      EXPECT_LE(piece.begin, piece.end);
      EXPECT_LE(piece.end, static_cast<std::int64_t>(text.size()));
      before = piece.begin;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, RecordedTokenizer, ::testing::ValuesIn(recorded()), [](const auto& one) {
  std::string name = one.param;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
});

}  // namespace
}  // namespace moesh::tokenizer
