// `moesh tokenize`: tables, JSON, ids back to text, counts, and refused requests.
#include <cstdlib>

#include <gmock/gmock.h>

#include "tests/cli/outcome.h"
#include "tests/paths.h"

namespace moesh::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

const std::string kTokenizers = (test::source_folder() / "tests/golden/tokenizers").string();
const std::string kTokenizer = kTokenizers + "/bytelevel-llama3";

TEST(Tokenize, ShowsTokensIdsAndBytes) {
  const Outcome shown = outcome_of({"tokenize", kTokenizer, "ab\n"});
  EXPECT_EQ(shown.code, 0);
  EXPECT_EQ(shown.out,
            " id  token      bytes  text\n"
            "  1  <|begin|>\n"
            " 66  a            0-1  a\n"
            " 67  b            1-2  b\n"
            "200  \xC4\x8A            2-3  \\n\n"
            "4 tokens, 3 bytes\n")
      << shown.out;
}

TEST(Tokenize, TakesAnyWordsForTexts) {
  const Outcome shown = outcome_of({"tokenize", kTokenizer, "--plain", "--json", "a=b", "c.yml", "--", "-d", "--help"});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_EQ(split(shown.out, '\n').size(), 5u) << "a line for each of four texts";
  EXPECT_THAT(
      shown.out,
      HasSubstr(R"({"id": 66, "token": "a", "begin": 0, "end": 1}, {"id": 30, "token": "=", "begin": 1, "end": 2})"));
}

TEST(Tokenize, ReadsAFileOrStandardInput) {
  const test::TemporaryFolder folder;
  const std::string text = folder.write("text", "ab"), out = folder.path() + "/out";
  const std::string json = R"({"ids": [1, 66, 67], "pieces": [)";
  EXPECT_THAT(outcome_of({"tokenize", kTokenizer, "--json", "--file", text}).out, HasSubstr(json));
  const std::string command = "'" + test::binary() + "' tokenize '" + kTokenizer + "' --json > '" + out + "' 2>&1 < ";
  EXPECT_EQ(std::system((command + "'" + text + "'").c_str()), 0);
  EXPECT_THAT(test::read_text(out), HasSubstr(json));
  EXPECT_NE(std::system((command + "/").c_str()), 0);
  EXPECT_THAT(test::read_text(out), HasSubstr("standard input: the text cannot be read: "));
}

TEST(Tokenize, TurnsIdsIntoText) {
  EXPECT_EQ(outcome_of({"tokenize", kTokenizer, "--decode", "1", "66", "67"}).out, "<|begin|>ab\n");
  EXPECT_EQ(outcome_of({"tokenize", kTokenizer, "--decode", "--plain", "[1, 66,67]"}).out, "ab\n");
  EXPECT_EQ(outcome_of({"tokenize", kTokenizer, "--decode", "--json", "66"}).out, "{\"text\": \"a\"}\n");
}

TEST(Tokenize, CountsTokens) {
  EXPECT_THAT(outcome_of({"tokenize", kTokenizer, "--count", "ab"}).out,
              MatchesRegex("3 tokens of 2 bytes, 0\\.67 bytes a token; .* tokens/s, .* MB/s\n"));
  EXPECT_THAT(outcome_of({"tokenize", kTokenizer, "--count", "--json", "ab"}).out,
              HasSubstr("{\"tokens\": 3, \"bytes\": 2, \"seconds\": "));
  EXPECT_THAT(outcome_of({"tokenize", kTokenizer, "--count", "--plain", ""}).out, HasSubstr("0 tokens of 0 bytes; "));
}

TEST(Tokenize, RefusesWhatItCannotDo) {
  const auto refusal = [](const std::vector<std::string>& words) {
    const Outcome refused = outcome_of(words);
    EXPECT_EQ(refused.code, 2);
    return refused.err;
  };
  EXPECT_THAT(refusal({"tokenize"}), HasSubstr("which tokenizer?"));
  EXPECT_THAT(refusal({"tokenize", kTokenizer, "a", "--file", "b"}), HasSubstr("a text and a file to take it from"));
  EXPECT_THAT(refusal({"tokenize", kTokenizer, "--decode", "a"}), HasSubstr("'a' is no token id"));
  EXPECT_THAT(refusal({"tokenize", kTokenizer, "--decode", "99999"}), HasSubstr("99999 is the id of no token"));
  EXPECT_THAT(refusal({"tokenize", kTokenizer, "--decode", "--count", "1"}),
              HasSubstr("--count of texts, but --decode takes ids"));
  EXPECT_THAT(refusal({"tokenize", kTokenizer, "--file", "nothing"}),
              HasSubstr("the text cannot be read: No such file"));
  EXPECT_THAT(refusal({"tokenize", "nothing", "a"}), HasSubstr("nothing: the tokenizer cannot be read"));
}

TEST(Tokenize, IsHeldToWhatWasRecorded) {
  const Outcome held = outcome_of({"verify", kTokenizers + "/spm-bpe", kTokenizers + "/t5"});
  EXPECT_EQ(held.code, 0) << held.out << held.err;
  EXPECT_THAT(held.out, HasSubstr("all as recorded."));
  const test::TemporaryFolder folder;
  folder.write("tokenizer.json", test::read_text(kTokenizer + "/tokenizer.json"));
  folder.write("expect.json", R"({"cases": [
      {"text": "a", "ids": [1, 66], "ids_plain": [66], "decoded": "<|begin|>a", "decoded_skip": "a"},
      {"text": "b", "ids": [1, 66], "ids_plain": [67], "decoded": "<|begin|>a", "decoded_skip": "b"}]})");
  const Outcome off = outcome_of({"verify", folder.path(), "--json"});
  EXPECT_EQ(off.code, 1);
  EXPECT_THAT(off.out, HasSubstr(R"("quantity": "ids", "error": 1)"));
  EXPECT_THAT(off.out, HasSubstr(R"("worst": "\"b\"")"));
  EXPECT_THAT(off.out, HasSubstr(R"("quantity": "text", "error": 0)"));
  folder.write("expect.json", "{}");
  EXPECT_THAT(outcome_of({"verify", folder.path()}).err, HasSubstr("expect.json: 'cases' is missing"));
}

}  // namespace
}  // namespace moesh::cli
