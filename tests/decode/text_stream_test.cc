// The text that is shown while tokens arrive.
#include "decode/text_stream.h"

#include <gtest/gtest.h>

#include "tests/paths.h"
#include "tests/support.h"
#include "tokenizer/bytes.h"

namespace moesh::decode {
namespace {

std::vector<std::string> shown(const tokenizer::Tokenizer& tokenizer, const std::vector<std::int32_t>& ids, std::vector<std::string> stops = {}) {
  TextStream stream(tokenizer, std::span(ids).first(1), std::move(stops));
  std::vector<std::string> all;
  for (std::size_t i = 1; i < ids.size(); ++i) all.push_back(stream.add(ids[i]));
  all.push_back(stream.finish());
  return all;
}

std::vector<std::string> of_bytes(const std::string& text, std::vector<std::string> stops = {}) {
  const auto bytes = tokenizer::bytes();
  return shown(*bytes, bytes->encode("." + text, tokenizer::Special::left_out), std::move(stops));
}

TEST(TextStream, ShowsWholeCharacters) {
  EXPECT_EQ(of_bytes("aé€b"), (std::vector<std::string>{"a", "", "é", "", "", "€", "b", ""}));
  EXPECT_EQ(of_bytes("a\xE2\x82"), (std::vector<std::string>{"a", "", "", "\xE2\x82"})) << "at the end also what is none";
}

TEST(TextStream, HoldsBackWhatMayBeAStop) {
  EXPECT_EQ(of_bytes("xENDx", {"END"}), (std::vector<std::string>{"x", "", "", "", "", ""}));
  EXPECT_EQ(of_bytes("ENxEN", {"END"}), (std::vector<std::string>{"", "", "ENx", "", "", "EN"}));
  EXPECT_EQ(of_bytes("abc", {"c", "ab"}), (std::vector<std::string>{"", "", "", ""}));
  EXPECT_EQ(of_bytes("ab", {""}), (std::vector<std::string>{"a", "b", ""}));
}

// Shown token by token, the text is the same as that of all tokens at once, even if the texts of tokens depend on each other.
TEST(TextStream, ShowsTheTextOfAllTokens) {
  const std::string text = "Hello,  world! naïve façade 日本語 \xF0\x9F\x98\x80 done.";
  for (const char* name : {"spm-bpe", "spm-unigram", "bytelevel-llama3", "bytelevel-gpt2", "bert-uncased", "t5"}) {
    const auto tokenizer = tokenizer::open((test::source_folder() / "tests/golden/tokenizers" / name).string());
    tokenizer::Ids ids = tokenizer->encode("x", tokenizer::Special::left_out);
    const std::size_t prompt = ids.size();
    for (const std::int32_t id : tokenizer->encode(text, tokenizer::Special::left_out)) ids.push_back(id);
    TextStream stream(*tokenizer, std::span(ids).first(prompt), {});
    std::string made = tokenizer->decode(std::span(ids).first(prompt), tokenizer::Special::left_out);
    for (std::size_t i = prompt; i < ids.size(); ++i) made += stream.add(ids[i]);
    EXPECT_EQ(made + stream.finish(), tokenizer->decode(ids, tokenizer::Special::left_out)) << name;
  }
}

TEST(TextStream, PassesOverTokensThatTheTokenizerLacks) {
  EXPECT_EQ(test::message_of([] { tokenizer::bytes()->token(256); }), "the bytes: token 256 is no byte\n  fix: use the tokenizer of this model");
  EXPECT_EQ(shown(*tokenizer::bytes(), {'.', 'a', 300, 'b'}), (std::vector<std::string>{"a", "", "b", ""}));
}

TEST(TextStream, SaysWithATokenWhetherItEndsTheText) {
  const auto bytes = tokenizer::bytes();
  const auto ends_with = [&](std::string stop, std::int32_t token, Ended ended) {
    TextStream stream(*bytes, std::vector<std::int32_t>{'.'}, {std::move(stop)});
    EXPECT_EQ(grown(stream, {0, 'E', Ended::not_yet}).ended, Ended::not_yet);
    const Grown made = grown(stream, {0, token, ended});
    return std::pair(made.more, made.ended);
  };
  EXPECT_EQ(ends_with("END", 'x', Ended::not_yet), std::pair(std::string("Ex"), Ended::not_yet));
  EXPECT_EQ(ends_with("END", 'x', Ended::by_stop), std::pair(std::string("E"), Ended::by_stop)) << "the token that ends is no text";
  EXPECT_EQ(ends_with("END", 'N', Ended::by_length), std::pair(std::string("EN"), Ended::by_length)) << "with what was held back";
  EXPECT_EQ(ends_with("EN", 'N', Ended::by_length), std::pair(std::string(), Ended::by_stop)) << "a stop counts more than the length";
}

}  // namespace
}  // namespace moesh::decode
