// The text that is shown while tokens arrive.
#include "decode/text_stream.h"

#include <functional>
#include <map>
#include <random>

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/paths.h"
#include "tests/support.h"
#include "tokenizer/byte_characters.h"
#include "tokenizer/byte_tokens.h"
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
  EXPECT_EQ(of_bytes("a\xF0\x9F\x98\x80"), (std::vector<std::string>{"a", "", "", "", "\xF0\x9F\x98\x80", ""}));
  EXPECT_EQ(of_bytes("a\xE2\x82"), (std::vector<std::string>{"a", "", "", "\xE2\x82"})) << "at the end also what is none";
}

TEST(TextStream, HoldsBackWhatMayBeAStop) {
  EXPECT_EQ(of_bytes("xENDx", {"END"}), (std::vector<std::string>{"x", "", "", "", "", ""}));
  EXPECT_EQ(of_bytes("ENxEN", {"END"}), (std::vector<std::string>{"", "", "ENx", "", "", "EN"}));
  EXPECT_EQ(of_bytes("abc", {"c", "ab"}), (std::vector<std::string>{"", "", "", ""}));
  EXPECT_EQ(of_bytes("xabc", {"ab", "zz"}), (std::vector<std::string>{"x", "", "", "", ""})) << "the first of the two";
  EXPECT_EQ(of_bytes("xENx", {"END", "zz"}), (std::vector<std::string>{"x", "", "", "ENx", ""}));
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

// Tells how many tokens it has decoded.
class Counted final : public tokenizer::Tokenizer {
 public:
  explicit Counted(const tokenizer::Tokenizer& of) : of_(of) {}
  tokenizer::Ids encode(std::string_view text, tokenizer::Special special) const override { return of_.encode(text, special); }
  std::vector<tokenizer::Piece> pieces(std::string_view text, tokenizer::Special special) const override {
    return of_.pieces(text, special);
  }
  std::string decode(std::span<const std::int32_t> ids, tokenizer::Special special) const override {
    decoded_ += ids.size();
    return of_.decode(ids, special);
  }
  std::int64_t size() const override { return of_.size(); }
  bool has(std::int32_t id) const override { return of_.has(id); }
  std::string token(std::int32_t id) const override { return of_.token(id); }
  std::optional<std::int32_t> id(std::string_view token) const override { return of_.id(token); }
  std::string describe() const override { return of_.describe(); }

  std::size_t decoded() const { return decoded_; }

 private:
  const tokenizer::Tokenizer& of_;
  mutable std::size_t decoded_ = 0;
};

// A recorded tokenizer. Its tokens of bytes are special, so that they would be left out; models have them as plain tokens.
std::unique_ptr<tokenizer::Tokenizer> with_plain_bytes(const std::string& name) {
  auto json = nlohmann::json::parse(test::read_text(test::source_folder() / "tests/golden/tokenizers" / name / "tokenizer.json"));
  nlohmann::json added = nlohmann::json::array();
  for (const auto& token : json["added_tokens"]) {
    if (!token["content"].get<std::string>().starts_with("<0x")) added.push_back(token);
  }
  json["added_tokens"] = added;
  const test::TemporaryFolder folder;
  folder.write("tokenizer.json", json.dump());
  return tokenizer::open(folder.path());
}

// Tokenizers with a token for each byte, and how they write it.
struct WithBytes {
  std::string name;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  std::function<std::int32_t(unsigned char)> token;
  bool takes_rows = false;  // one bad byte makes all bytes in a row U+FFFD
};

std::vector<WithBytes> tokenizers_with_bytes() {
  std::vector<WithBytes> all;
  all.push_back({"bytes", tokenizer::bytes(), [](unsigned char byte) { return std::int32_t{byte}; }, false});
  for (const char* name : {"llama-spm", "gemma", "uni-bytes", "bytelevel-llama3", "bytelevel-gpt2"}) {
    auto made = with_plain_bytes(name);
    const bool has_names = made->id("<0x00>").has_value();
    std::map<unsigned char, std::int32_t> ids;
    for (std::int32_t id = 0; id < made->size(); ++id) {
      const std::string token = made->token(id);
      const auto named = tokenizer::byte_of_token(token);
      const auto written = tokenizer::bytes_of_characters(token);
      if (named) ids[*named] = id;
      if (!has_names && written && written->size() == 1) ids[static_cast<unsigned char>(written->front())] = id;
    }
    all.push_back({name, std::move(made), [ids](unsigned char byte) { return ids.at(byte); }, has_names});
  }
  return all;
}

// A model may say bytes that are no text for as long as it likes: they are shown soon, and each token costs the same.
TEST(TextStream, ShowsBytesThatAreNoTextAsTheyCome) {
  for (const WithBytes& of : tokenizers_with_bytes()) {
    for (const std::string row : {"\xFF", "\xE2\x82", "\xFF\xE2\x82\xAC", "\xF0\x9F\x98\xF0"}) {
      const Counted tokenizer(*of.tokenizer);
      tokenizer::Ids ids = of.tokenizer->encode("Hello", tokenizer::Special::left_out);
      TextStream stream(tokenizer, ids, {});
      std::string made = of.tokenizer->decode(ids, tokenizer::Special::left_out);
      for (std::size_t i = 0; i < 1000; ++i) {
        ids.push_back(of.token(static_cast<unsigned char>(row[i % row.size()])));
        made += stream.add(ids.back());
        if (i % 100 != 99) continue;
        const std::string all = of.tokenizer->decode(ids, tokenizer::Special::left_out);
        EXPECT_TRUE(all.starts_with(made)) << of.name;
        EXPECT_LE(all.size() - made.size(), 12u) << of.name << ": at most the bytes of one character are held back";
      }
      EXPECT_EQ(made + stream.finish(), of.tokenizer->decode(ids, tokenizer::Special::left_out)) << of.name;
      EXPECT_LE(tokenizer.decoded(), 1000u * 150) << of.name;
    }
  }
}

// Words, characters that have no token of their own, and bad bytes in any order; but where one bad byte makes all in a row U+FFFD, it comes
// first, as what was shown cannot be taken back.
TEST(TextStream, ShowsTheTextOfDrawnTokens) {
  const std::vector<std::string> characters{"é", "€", "你", "\xF0\x9F\x98\x80", "！", "\xEF\xBF\xBD"};
  for (const WithBytes& of : tokenizers_with_bytes()) {
    std::mt19937 draw(7);
    for (int turn = 0; turn < 60; ++turn) {
      tokenizer::Ids ids = of.tokenizer->encode("x", tokenizer::Special::left_out);
      const std::size_t prompt = ids.size();
      bool is_bad = false;
      for (int part = 0; part < 60; ++part) {
        const unsigned kind = draw() % 8;
        if (kind < 5) {
          for (const char byte : characters[draw() % characters.size()]) ids.push_back(of.token(static_cast<unsigned char>(byte)));
        } else if (kind < 7 || (of.takes_rows && !is_bad)) {
          for (const std::int32_t id : of.tokenizer->encode(" word, and", tokenizer::Special::left_out)) ids.push_back(id);
          is_bad = turn % 2 == 1;
          if (is_bad) ids.push_back(of.token(0xFF));
        } else {
          ids.push_back(of.token(static_cast<unsigned char>(0x80 + draw() % 0x80)));
        }
      }
      TextStream stream(*of.tokenizer, std::span(ids).first(prompt), {});
      std::string made = of.tokenizer->decode(std::span(ids).first(prompt), tokenizer::Special::left_out);
      for (std::size_t i = prompt; i < ids.size(); ++i) made += stream.add(ids[i]);
      ASSERT_EQ(made + stream.finish(), of.tokenizer->decode(ids, tokenizer::Special::left_out)) << of.name << ", turn " << turn;
    }
  }
}

// There the text that was shown becomes U+FFFD afterwards.
TEST(TextStream, StaysTextWhereBadBytesFollowCharacters) {
  const auto tokenizer = with_plain_bytes("llama-spm");
  std::vector<std::int32_t> ids = tokenizer->encode("x", tokenizer::Special::left_out);
  const std::size_t prompt = ids.size();
  for (const unsigned char byte : std::string("\xF0\x9F\x98\x80\xFF\xE2\x82\xAC"))
    ids.push_back(*tokenizer->id(fmt::format("<0x{:02X}>", byte)));
  TextStream stream(*tokenizer, std::span(ids).first(prompt), {});
  std::string made;
  for (std::size_t i = prompt; i < ids.size(); ++i) made += stream.add(ids[i]);
  EXPECT_EQ(made + stream.finish(), "\xF0\x9F\x98\x80\uFFFD\uFFFD\uFFFD\uFFFD");
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
