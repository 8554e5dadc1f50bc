// Completion requests: how they are read, and which are refused with which message.
#include "serve/completion.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "config/load.h"
#include "serve/api_error.h"
#include "tests/paths.h"
#include "tests/support.h"
#include "tokenizer/bytes.h"

namespace moesh::serve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CompletionRequests : public ::testing::Test {
 protected:
  Completion parsed(const std::string& body) const { return parse_completion(body, served_); }
  ApiError error(const std::string& body) const {
    try {
      parsed(body);
    } catch (const ApiError& error) {
      return error;
    }
    return {200, "no error"};
  }
  std::string refusal(const std::string& body) const { return error(body).what(); }
  // The refusal of a request with a prompt and these members.
  std::string refusal_with(const std::string& members) const { return refusal("{\"prompt\": \"abc\", " + members + "}"); }

  const config::Settings settings_ = config::load({"vocab_size=200"}).settings;
  const std::unique_ptr<tokenizer::Tokenizer> tokenizer_ = tokenizer::bytes();
  Served served_{"small", *tokenizer_, decode::bounds_of(*tokenizer_, settings_), {.temperature = 1, .seed = 9}, {}, 32, 200, 20, 8};
};

TEST_F(CompletionRequests, SayLittle) {
  served_.seed = 77;
  const Completion of = parsed("{\"prompt\": \"abc\"}");
  ASSERT_EQ(of.prompts.size(), 1u);
  EXPECT_EQ(of.prompts[0].text, "abc");
  EXPECT_THAT(of.prompts[0].ids, ElementsAre('a', 'b', 'c'));
  EXPECT_EQ(of.prompts[0].most_tokens, 16);
  EXPECT_EQ(of.texts(), 1u);
  EXPECT_EQ(of.sampling.temperature, 1);
  EXPECT_EQ(of.sampling.seed, 77);
  EXPECT_FALSE(of.streams || of.echoes || of.ignores_end || of.tells_usage);
}

TEST_F(CompletionRequests, SayAll) {
  const Completion of = parsed(R"({"model": "small", "prompt": ["abc", "de"], "max_tokens": 7, "n": 3, "temperature": 0.5, "top_p": 0.9,
    "top_k": 5, "min_p": 0.1, "repetition_penalty": 1.5, "seed": -4, "stop": ["x", "yz"], "echo": true, "stream": true,
    "stream_options": {"include_usage": true}, "ignore_eos": true, "user": "me", "suffix": null, "logprobs": null, "best_of": 3,
    "presence_penalty": 0.0, "frequency_penalty": 0, "logit_bias": {}})");
  EXPECT_EQ(of.texts(), 6u);
  EXPECT_EQ(of.prompt_tokens(), 5);
  EXPECT_EQ(of.prompts[1].most_tokens, 7);
  EXPECT_EQ(of.sampling.temperature, 0.5);
  EXPECT_EQ(of.sampling.top_p, 0.9);
  EXPECT_EQ(of.sampling.top_k, 5);
  EXPECT_EQ(of.sampling.min_p, 0.1);
  EXPECT_EQ(of.sampling.repetition_penalty, 1.5);
  EXPECT_EQ(of.sampling.seed, -4);
  EXPECT_THAT(of.stops, ElementsAre("x", "yz"));
  EXPECT_TRUE(of.streams && of.echoes && of.ignores_end && of.tells_usage);
  EXPECT_THAT(parsed(R"({"prompt": "a", "stop": "x", "top_k": -1})").stops, ElementsAre("x"));
  EXPECT_EQ(parsed(R"({"prompt": "a", "top_k": -1})").sampling.top_k, 0) << "no limit";
}

TEST_F(CompletionRequests, GivePromptsAsTokens) {
  EXPECT_THAT(parsed(R"({"prompt": [97, 98]})").prompts.at(0).ids, ElementsAre(97, 98));
  EXPECT_EQ(parsed(R"({"prompt": [97, 98], "echo": true})").prompts.at(0).text, "ab");
  const Completion of = parsed(R"({"prompt": [[97], [98, 99]]})");
  ASSERT_EQ(of.prompts.size(), 2u);
  EXPECT_THAT(of.prompts[1].ids, ElementsAre(98, 99));
}

TEST_F(CompletionRequests, HaveAnotherSeedEachUnlessTheySayOne) {
  const std::string body = "{\"prompt\": \"abc\"}";
  EXPECT_NE(parsed(body).sampling.seed, parsed(body).sampling.seed);
}

TEST_F(CompletionRequests, GetAsManyTokensAsAreUsualAndFit) {
  EXPECT_EQ(parsed("{\"prompt\": \"" + std::string(25, 'a') + "\"}").prompts[0].most_tokens, 7);
  served_.most_tokens = 3;
  EXPECT_EQ(parsed("{\"prompt\": \"abc\"}").prompts[0].most_tokens, 3);
}

TEST_F(CompletionRequests, ThatAreNoneAreRefused) {
  EXPECT_THAT(refusal(""), HasSubstr("not readable as JSON"));
  EXPECT_THAT(refusal("{\"prompt\": \"abc\""), HasSubstr("not readable as JSON"));
  EXPECT_THAT(refusal("{\"prompt\": \"\xff\"}"), HasSubstr("not readable as JSON"));
  EXPECT_THAT(refusal(std::string(1000, '[')), HasSubstr("values nested more than"));
  EXPECT_THAT(refusal("[1]"), HasSubstr("the body is no JSON object"));
  EXPECT_THAT(refusal("{}"), HasSubstr("'prompt' is missing"));
  EXPECT_THAT(refusal("{\"prompt\": null}"), HasSubstr("'prompt' is missing"));
  EXPECT_EQ(error("{}").status, 400);
}

TEST_F(CompletionRequests, ForOtherModelsAreRefused) {
  const ApiError other = error(R"({"model": "large", "prompt": "a"})");
  EXPECT_STREQ(other.what(), "the model 'large' is not here, 'small' is");
  EXPECT_EQ(other.status, 404);
  EXPECT_EQ(other.code, "model_not_found");
  EXPECT_THAT(refusal_with(R"("model": 5)"), HasSubstr("'model' is 5, a text was expected"));
}

TEST_F(CompletionRequests, WithOtherPromptsAreRefused) {
  for (const char* none : {"\"\"", "[]", "[\"\"]", "[\"a\", \"\"]"}) {
    EXPECT_THAT(refusal(fmt::format("{{\"prompt\": {}}}", none)), HasSubstr("a prompt without any token")) << none;
  }
  for (const char* other : {"5", "true", "[\"a\", 5]", "[1.5]", "[[1], []]", "[[[1]]]", "{\"a\": 1}", "{}"}) {
    EXPECT_THAT(refusal(fmt::format("{{\"prompt\": {}}}", other)), HasSubstr("a text, a list of texts, a list of token ids or a list of such lists was expected"))
        << other;
  }
  for (const char* beyond : {"[200]", "[-1]", "[18446744073709551615]", "[[1], [4294967297]]"}) {
    EXPECT_THAT(refusal(fmt::format("{{\"prompt\": {}}}", beyond)), HasSubstr(" lies outside the vocabulary of ")) << beyond;
  }
  served_.vocabulary = 100;
  EXPECT_THAT(refusal("{\"prompt\": \"xyz\"}"), HasSubstr("token 120 lies outside the vocabulary of 100"));
  EXPECT_THAT(refusal(R"({"prompt": ["a","a","a","a","a","a","a","a","a"]})"), HasSubstr("9 prompts in a request, at most 8 are taken"));
  EXPECT_THAT(refusal(R"({"prompt": ["a","a","a"], "n": 3})"), HasSubstr("9 texts of a request, at most 8 go on"));
}

// The ids of a tokenizer may have gaps.
TEST_F(CompletionRequests, WithTokensThatMakeNoTextAreRefused) {
  const auto wordlevel = tokenizer::open((test::source_folder() / "tests/golden/tokenizers/wordlevel").string());
  const Served served{"small", *wordlevel, decode::bounds_of(*wordlevel, settings_), {}, {}, 32, 1'000'000, 20, 8};
  try {
    parse_completion(fmt::format("{{\"prompt\": [{}]}}", wordlevel->size()), served);
    FAIL();
  } catch (const ApiError& error) {
    EXPECT_THAT(error.what(), HasSubstr(" lies outside the vocabulary of "));
  }
}

TEST_F(CompletionRequests, ThatAreTooLongAreRefused) {
  const ApiError prompt = error("{\"prompt\": \"" + std::string(32, 'a') + "\"}");
  EXPECT_STREQ(prompt.what(), "prompt and text have 32 tokens at most; the prompt has 32, and 16 were to follow");
  EXPECT_EQ(prompt.code, "context_length_exceeded");
  EXPECT_THAT(refusal("{\"max_tokens\": 8, \"prompt\": \"" + std::string(25, 'a') + "\"}"), HasSubstr("the prompt has 25, and 8 were to follow"));
  EXPECT_THAT(refusal("{\"prompt\": [" + std::string(80, '1') + "]}"), HasSubstr("a list of token ids"));
  std::string ids = "1";
  for (int i = 0; i < 50; ++i) ids += ", 1";
  EXPECT_THAT(refusal("{\"prompt\": [" + ids + "]}"), HasSubstr("the prompt has 51"));
}

TEST_F(CompletionRequests, WithValuesOutOfRangeAreRefused) {
  EXPECT_THAT(refusal_with(R"("max_tokens": 0)"), HasSubstr("'max_tokens' is 0, an integer from 1 to 20 was expected"));
  EXPECT_THAT(refusal_with(R"("max_tokens": 21)"), HasSubstr("an integer from 1 to 20 was expected"));
  EXPECT_THAT(refusal_with(R"("max_tokens": 1.5)"), HasSubstr("'max_tokens' is 1.5, an integer"));
  EXPECT_THAT(refusal_with(R"("max_tokens": 18446744073709551615)"), HasSubstr("'max_tokens' is 18446744073709551615, an integer"));
  EXPECT_THAT(refusal_with(R"("n": 9)"), HasSubstr("'n' is 9, an integer from 1 to 8"));
  EXPECT_THAT(refusal_with(R"("temperature": 2.5)"), HasSubstr("'temperature' is 2.5, a number from 0 to 2 was expected"));
  EXPECT_THAT(refusal_with(R"("temperature": "hot")"), HasSubstr("'temperature' is \"hot\", a number"));
  EXPECT_THAT(refusal_with(R"("top_p": -0.1)"), HasSubstr("'top_p' is -0.1, a number from 0 to 1"));
  EXPECT_THAT(refusal_with(R"("top_k": -2)"), HasSubstr("'top_k' is -2, an integer"));
  EXPECT_THAT(refusal_with(R"("min_p": 1e999)"), HasSubstr("not readable as JSON"));
  EXPECT_THAT(refusal_with(R"("repetition_penalty": 0)"), HasSubstr("'repetition_penalty' is 0, a number"));
  EXPECT_THAT(refusal_with(R"("seed": "x")"), HasSubstr("'seed' is \"x\", an integer"));
  EXPECT_THAT(refusal_with(R"("seed": 18446744073709551615)"), HasSubstr("'seed' is 18446744073709551615, an integer"));
  EXPECT_THAT(refusal_with(R"("echo": 1)"), HasSubstr("'echo' is 1, true or false was expected"));
  for (const std::string& stop : {std::string("5"), std::string("[5]"), "\"" + std::string(1025, 'x') + "\"", std::string("{}")}) {
    EXPECT_THAT(refusal_with("\"stop\": " + stop), HasSubstr("a text or a list of up to 16, each of up to 1024 bytes, was expected")) << stop;
  }
  EXPECT_THAT(refusal_with(R"("stream": true, "stream_options": 1)"), HasSubstr("'stream_options' is 1, an object was expected"));
  EXPECT_THAT(refusal_with(R"("stream_options": {})"), HasSubstr("'stream_options' without 'stream'"));
}

TEST_F(CompletionRequests, ForWhatIsNotDoneAreRefused) {
  for (const char* member : {"\"logprobs\": 2", "\"logprobs\": 0", "\"suffix\": \"x\"", "\"logit_bias\": {\"5\": 1}", "\"presence_penalty\": 0.5",
                             "\"frequency_penalty\": -1", "\"best_of\": 4"}) {
    EXPECT_THAT(refusal_with(member), HasSubstr("' is not supported")) << member;
  }
  EXPECT_THAT(refusal_with(R"("tools": [])"), HasSubstr("'tools' is no parameter of completions"));
  EXPECT_EQ(error(R"({"prompt": "a", "tools": []})").param, "tools");
  EXPECT_THAT(refusal_with(R"("stream": true, "stream_options": {"x": 1})"), HasSubstr("'x' is no parameter of completions"));
}

TEST(ApiErrors, AreOfTheInterfacesShape) {
  const auto json = nlohmann::json::parse(to_json(ApiError(400, "no \"x\"\n", "x", "bad")));
  EXPECT_EQ(json, nlohmann::json::parse(R"({"error": {"message": "no \"x\"\n", "type": "invalid_request_error", "param": "x", "code": "bad"}})"));
  EXPECT_EQ(nlohmann::json::parse(to_json(ApiError(503, "later"))),
            nlohmann::json::parse(R"({"error": {"message": "later", "type": "server_error", "param": null, "code": null}})"));
}

}  // namespace
}  // namespace moesh::serve
