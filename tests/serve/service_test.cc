// A server behind a socket: its answers, and that nothing a client does ends it or spoils other answers.
#include "serve/service.h"

#include <future>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/cli/outcome.h"
#include "tests/serve/serving.h"

#ifdef __SANITIZE_THREAD__
// The library is not built with the thread sanitizer, which therefore does not see how it guards its constants.
extern "C" const char* __tsan_default_suppressions() { return "called_from_lib:libcpp-httplib.so\n"; }
#endif

namespace moesh::serve {
namespace {

using test::answer_to;
using test::get;
using test::HttpClient;
using test::post;
using test::post_of;
using test::Reply;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using nlohmann::json;

// What `moesh decode` generates.
std::vector<json> decoded(const std::vector<std::string>& words) {
  std::vector<std::string> all{"decode", llama(), "tokenizer_path=", "dtype=float32", "--json"};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<json> texts;
  const cli::Outcome made = cli::outcome_of(all);
  EXPECT_EQ(made.code, 0) << made.err;
  for (const std::string& line : split(made.out, '\n')) {
    if (!line.empty()) texts.push_back(json::parse(line));
  }
  return texts;
}

// The data fields of a stream's events.
std::vector<std::string> events_of(const Reply& reply) {
  EXPECT_EQ(reply.headers.at("content-type"), "text/event-stream");
  std::vector<std::string> events;
  for (const std::string& line : split(reply.body, '\n')) {
    if (line.empty()) continue;
    EXPECT_THAT(line, StartsWith("data: "));
    events.push_back(line.substr(6));
  }
  return events;
}

TEST(Serve, GivesTheTextThatDecodeGives) {
  const Serving serving;
  const std::vector<std::string> prompts{"abc", "a longer prompt than the others have", "x"};
  std::vector<std::string> words = prompts;
  words.insert(words.end(), {"--max-tokens", "12"});
  const std::vector<json> expected = decoded(words);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const json body = body_of(post(serving.port(), greedy(prompts[i], 12)));
    EXPECT_EQ(body["choices"], json::array({{{"index", 0}, {"text", expected[i]["text"]}, {"logprobs", nullptr}, {"finish_reason", "length"}}}));
    EXPECT_EQ(body["usage"], json({{"prompt_tokens", prompts[i].size()}, {"completion_tokens", 12}, {"total_tokens", prompts[i].size() + 12}}));
    EXPECT_EQ(body["object"], "text_completion");
    EXPECT_EQ(body["model"], "llama");
  }
  const std::vector<json> drawn = decoded({"abc", "--max-tokens", "12", "decode_sampling_strategy=weighted", "decode_sampling_seed=7"});
  EXPECT_EQ(text_of(post(serving.port(), R"({"prompt": "abc", "max_tokens": 12, "seed": 7})")), drawn[0]["text"]);
}

TEST(Serve, StreamsWhatItGivesWhole) {
  const Serving serving;
  for (const std::string extra : {R"("seed": 3)", R"("seed": 4, "n": 3)", R"("seed": 5, "stop": ["a", "b"], "echo": true)"}) {
    const std::string request = R"({"prompt": ["abc", "de"], "max_tokens": 20, )" + extra;
    const json whole = body_of(post(serving.port(), request + "}"));
    const std::vector<std::string> events = events_of(post(serving.port(), request + R"(, "stream": true, "stream_options": {"include_usage": true}})"));
    std::map<int, std::string> texts;
    std::map<int, json> reasons;
    for (const std::string& event : events) {
      if (event == "[DONE]") continue;
      const json parsed = json::parse(event);
      EXPECT_EQ(parsed["object"], "text_completion");
      for (const json& choice : parsed["choices"]) {
        texts[choice["index"]] += choice["text"];
        reasons[choice["index"]] = choice["finish_reason"];
      }
    }
    ASSERT_EQ(texts.size(), whole["choices"].size());
    for (const json& choice : whole["choices"]) {
      EXPECT_EQ(texts[choice["index"]], choice["text"]) << extra;
      EXPECT_EQ(reasons[choice["index"]], choice["finish_reason"]);
    }
    EXPECT_EQ(events.back(), "[DONE]");
    EXPECT_EQ(json::parse(events[events.size() - 2])["usage"], whole["usage"]);
  }
  const std::vector<std::string> plain = events_of(post(serving.port(), greedy("abc", 5, R"("stream": true, )")));
  EXPECT_FALSE(json::parse(plain.front()).contains("usage"));
}

TEST(Serve, GivesTheSameAnswerWhateverElseGoesOn) {
  const Serving serving;
  const auto request = [](int i) {
    return json({{"prompt", "prompt " + std::to_string(i % 7)}, {"max_tokens", 5 + i % 11}, {"seed", i % 3}, {"n", 1 + i % 2}}).dump();
  };
  std::vector<json> alone;
  for (int i = 0; i < 40; ++i) alone.push_back(body_of(post(serving.port(), request(i)))["choices"]);
  std::vector<std::future<json>> together;
  for (int i = 0; i < 40; ++i) {
    together.push_back(std::async(std::launch::async, [&, i] { return body_of(post(serving.port(), request(i)))["choices"]; }));
  }
  for (int i = 0; i < 40; ++i) EXPECT_EQ(together[static_cast<std::size_t>(i)].get(), alone[static_cast<std::size_t>(i)]) << i;
  const json two = body_of(post(serving.port(), R"({"prompt": "abc", "max_tokens": 20, "seed": 1, "n": 2})"))["choices"];
  EXPECT_NE(two[0]["text"], two[1]["text"]);
}

TEST(Serve, TakesTokensAndEchoesThem) {
  const Serving serving;
  const std::string text = text_of(post(serving.port(), greedy("abc", 6)));
  EXPECT_EQ(text_of(post(serving.port(), R"({"prompt": [97, 98, 99], "max_tokens": 6, "temperature": 0})")), text);
  EXPECT_EQ(text_of(post(serving.port(), R"({"prompt": [97, 98, 99], "max_tokens": 6, "temperature": 0, "echo": true})")), "abc" + text);
}

TEST(Serve, TellsWhatThereIs) {
  const Serving serving;
  const json models = body_of(get(serving.port(), "/v1/models"));
  EXPECT_EQ(models["data"][0]["id"], "llama");
  EXPECT_EQ(models["data"][0]["max_model_len"], kSlots);
  EXPECT_EQ(body_of(get(serving.port(), "/v1/models/llama"))["id"], "llama");
  EXPECT_EQ(body_of(get(serving.port(), "/health"))["status"], "ok");
  post(serving.port(), greedy("abc", 9));
  EXPECT_TRUE(serving.comes_to("moesh_tokens_total 9"));
  EXPECT_THAT(serving.metrics(), HasSubstr("moesh_texts_running 0\n"));
  EXPECT_THAT(serving.metrics(), HasSubstr("moesh_answers_total{status=\"200\"} 1\n"));
  EXPECT_EQ(get(serving.port(), "/v1/models/gpt").status, 404);
  for (const std::string target : {"http://127.0.0.1:8000/health", "HTTPS://host/health?a=b"})
    EXPECT_EQ(body_of(get(serving.port(), target))["status"], "ok") << "as clients of a proxy ask";
  HttpClient client(serving.port());
  ASSERT_TRUE(client.send("HEAD /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
  EXPECT_EQ(client.next_line(), "HTTP/1.1 200 OK");
}

TEST(Serve, SaysWhatItDoesNotDo) {
  const Serving serving;
  const auto refused = [&](const std::string& request, int status, const std::string& words) {
    const Reply reply = answer_to(serving.port(), request);
    EXPECT_EQ(reply.status, status) << request;
    EXPECT_EQ(reply.headers.at("content-type"), "application/json");
    EXPECT_THAT(message_of(reply), HasSubstr(words)) << request;
    return reply;
  };
  refused("GET / HTTP/1.1\r\nHost: x\r\n\r\n", 404, "nothing is at '/': ask /v1/completions, /v1/models, /health or /metrics");
  refused("GET /%0a%1b[31m%ff HTTP/1.1\r\nHost: x\r\n\r\n", 404, "nothing is at '");
  refused(post_of("{}", "/v1/chat/completions"), 404, "chat templates are not applied: make the prompt, and ask /v1/completions");
  EXPECT_EQ(refused("GET /v1/completions HTTP/1.1\r\nHost: x\r\n\r\n", 405, " is asked for by POST").headers.at("allow"), "POST");
  EXPECT_EQ(refused(post_of("{}", "/v1/models"), 405, " is asked for by GET").headers.at("allow"), "GET");
  refused("DELETE /v1/models HTTP/1.1\r\nHost: x\r\n\r\n", 405, " is asked for by GET");
  refused("PUT /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", 405, " is asked for by POST");
  refused("OPTIONS /v1/completions HTTP/1.1\r\nHost: x\r\n\r\n", 405, " is asked for by POST");
  refused("TRACE / HTTP/1.1\r\nHost: x\r\n\r\n", 400, "this is no request of HTTP/1.1");
  refused("BREW /pot HTTP/1.1\r\nHost: x\r\n\r\n", 400, "this is no request of HTTP/1.1");
  refused("\x16\x03\x01\x02\r\n\r\n", 400, "this is no request of HTTP/1.1");
  refused("GET /health HTTP/1.1\r\nHost: x\r\nRange: bytes=x\r\n\r\n", 416, "no such range");
  refused("GET http://host HTTP/1.1\r\nHost: x\r\n\r\n", 404, "nothing is at '/'");
  refused("GET /" + std::string(9000, 'a') + " HTTP/1.1\r\nHost: x\r\n\r\n", 414, "the path is too long");
  refused("GET /" + std::string(90'000, 'a') + " HTTP/1.1\r\nHost: x\r\n\r\n", 414, "the path is too long");
  refused("GET /health HTTP/1.1\r\nHost: x\r\nX: " + std::string(9000, 'a') + "\r\n\r\n", 400, "its headers are too long");
  EXPECT_EQ(answer_to(serving.port(), post_of("{\"prompt\": \"a\"}", "/v1/completions", "Application/JSON ; charset=utf-8")).status, 200);
  refused(post_of("{\"prompt\": \"a\"}", "/v1/completions", "text/plain"), 415, "the body is 'text/plain': Content-Type: application/json was expected");
  refused(post_of("--x\r\n\r\n--x--", "/v1/completions", "multipart/form-data; boundary=x"), 415, "application/json was expected");
  refused("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\r\n", 400, "not readable as JSON");
  refused(post_of("{\"prompt\": "), 400, "not readable as JSON");
  refused(post_of(std::string("\0\xff\x80 garbage", 12)), 400, "not readable as JSON");
  refused(post_of("{\"prompt\": \"\"}"), 400, "a prompt without any token");
  refused(post_of("{\"prompt\": \"" + std::string(3000, 'a') + "\"}"), 400, "prompt and text have 2,000 tokens at most; the prompt has 3,000");
  EXPECT_EQ(body_of(answer_to(serving.port(), "GET /health HTTP/1.1\r\nHost: x\r\nRange: bytes=0-1\r\nAccept-Encoding: gzip\r\n\r\n"))["status"], "ok");
}

TEST(Serve, GivesUpTheTextsOfClientsThatGo) {
  const Serving serving({.rows = 2, .waiting = 100});
  const std::string expected = text_of(post(serving.port(), greedy("abc", 8)));
  for (const std::string more : {"", R"("stream": true, )"}) {
    std::vector<std::unique_ptr<HttpClient>> clients;
    for (int i = 0; i < 10; ++i) {
      clients.push_back(std::make_unique<HttpClient>(serving.port()));
      ASSERT_TRUE(clients.back()->send(post_of(greedy("abc", 1900, more))));
    }
    EXPECT_TRUE(serving.comes_to("moesh_texts_running 2"));
    clients.clear();
    EXPECT_EQ(text_of(post(serving.port(), greedy("abc", 8))), expected);
    EXPECT_TRUE(serving.comes_to("moesh_texts_running 0"));
  }
  EXPECT_TRUE(serving.comes_to("moesh_answers_total{status=\"499\"} 20")) << serving.metrics();
  EXPECT_TRUE(test::wait_until([&] { return const_cast<Serving&>(serving).server().connections() == 0; }));
}

// The code that sends an answer may learn that the client is gone before it asks for the first piece, or between two pieces.
TEST(Serve, CountsStreamsThatNobodyTakesToTheirEnd) {
  const Serving serving;
  Service& service = const_cast<Serving&>(serving).service();
  for (const int pieces : {0, 1}) {
    const HttpAnswer answer = service.answer(
        {"POST", "/v1/completions", "application/json", greedy("abc", 1900, R"("stream": true, )"), HttpRequest::Body::whole, [] { return true; }});
    ASSERT_TRUE(answer.next);
    for (int i = 0; i < pieces; ++i) EXPECT_TRUE(answer.next());
  }
  EXPECT_TRUE(serving.comes_to("moesh_answers_total{status=\"499\"} 2"));
  EXPECT_TRUE(serving.comes_to("moesh_texts_running 0"));
  EXPECT_LT(serving.metric("moesh_tokens_total"), 2 * 1900) << "they were given up";
}

TEST(Serve, RefusesTextsThatItCannotKeep) {
  const Serving serving({.rows = 1, .waiting = 2});
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<HttpClient>(serving.port()));
    ASSERT_TRUE(clients.back()->send(post_of(greedy("abc", 1900))));
  }
  ASSERT_TRUE(serving.comes_to("moesh_texts_waiting 2"));
  const Reply reply = post(serving.port(), greedy("abc", 4));
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.headers.at("retry-after"), "1");
  EXPECT_EQ(message_of(reply), "too many texts wait: ask again");
  clients.clear();
  ASSERT_TRUE(serving.comes_to("moesh_texts_waiting 0"));
  EXPECT_EQ(post(serving.port(), greedy("abc", 4)).status, 200);
}

// One request in three is wrong.
std::string some_request(int i) { return post_of(i % 3 == 2 ? "{\"prompt\": 5}" : greedy("prompt " + std::to_string(i), 3)); }

TEST(Serve, AnswersManyRequestsAtOnceWithFewConnections) {
  Wanted wanted{.rows = 16, .waiting = 2000};
  wanted.limits.connections = 100;
  const Serving serving(wanted);
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 400; ++i) {
    clients.push_back(std::make_unique<HttpClient>(serving.port()));
    ASSERT_TRUE(clients.back()->is_connected());
    ASSERT_TRUE(clients.back()->send(some_request(i)));
  }
  int done = 0, refused = 0;
  for (auto& client : clients) {
    const int status = client->receive().status;
    done += status == 200;
    refused += status == 400;
    client->close();
  }
  EXPECT_EQ(done, 267);
  EXPECT_EQ(refused, 133);
}

// A client that does not read blocks only its own connection.
TEST(Serve, GoesOnWhileClientsDoNotRead) {
  const Serving serving;
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 6; ++i) {
    clients.push_back(std::make_unique<HttpClient>(serving.port()));
    ASSERT_TRUE(clients.back()->send(post_of(greedy("abc", 300, R"("stream": true, )"))));
  }
  const std::string whole = text_of(post(serving.port(), greedy("abc", 300)));
  for (auto& client : clients) {
    std::string text;
    for (const std::string& event : events_of(client->receive())) {
      if (event != "[DONE]") text += json::parse(event)["choices"][0]["text"];
    }
    EXPECT_EQ(text, whole);
  }
}

TEST(Serve, EndsWithAnAnswerToEverybody) {
  Serving serving({.rows = 1, .waiting = 10});
  HttpClient going(serving.port()), streaming(serving.port()), idle(serving.port());
  ASSERT_TRUE(going.send(post_of(greedy("abc", 1900))));
  ASSERT_TRUE(serving.comes_to("moesh_texts_running 1"));
  ASSERT_TRUE(streaming.send(post_of(greedy("abc", 1900, R"("stream": true, )"))));
  ASSERT_TRUE(serving.comes_to("moesh_texts_waiting 1"));
  serving.service().end(std::chrono::milliseconds(0));
  const Reply cut = going.receive();
  EXPECT_EQ(cut.status, 503);
  EXPECT_EQ(message_of(cut), "the server ends");
  EXPECT_THAT(streaming.receive().body, HasSubstr("the server ends"));
  EXPECT_EQ(message_of(post(serving.port(), greedy("abc", 4))), "the server ends");
  serving.server().stop();
  EXPECT_TRUE(idle.is_closed());
  EXPECT_FALSE(HttpClient(serving.port()).is_connected());
}

TEST(Serve, EndsTextsThatHaveTheTime) {
  Serving serving;
  auto reply = std::async(std::launch::async, [&] { return post(serving.port(), greedy("abc", 200)); });
  ASSERT_TRUE(test::wait_until([&] { return serving.metrics().find("moesh_tokens_total 0\n") == std::string::npos; }));
  serving.service().end(std::chrono::minutes(1));
  EXPECT_EQ(body_of(reply.get())["usage"]["completion_tokens"], 200);
}

TEST(Serve, StaysUpWhenAStepFails) {
  Wanted wanted;
  wanted.has_weights = false;
  const Serving serving(wanted);
  for (int i = 0; i < 2; ++i) {
    const Reply reply = post(serving.port(), greedy("abc", 4));
    EXPECT_EQ(reply.status, 503);
    EXPECT_THAT(message_of(reply), HasSubstr("the parameter has no value"));
  }
  EXPECT_EQ(get(serving.port(), "/health").status, 200);
}

TEST(Serve, ListensWhereItCan) {
  Serving serving;
  EXPECT_THAT(test::message_of([&] { listen("127.0.0.1", serving.port(), {}, serving.service()); }), HasSubstr("cannot listen: Address already in use"));
  EXPECT_THAT(test::message_of([&] { listen("192.0.2.1", 0, {}, serving.service()); }), HasSubstr("cannot listen: Cannot assign requested address"));
  HttpLimits limits;
  limits.connections = 100'000'000;
  EXPECT_THAT(test::message_of([&] { listen("127.0.0.1", 0, limits, serving.service()); }), HasSubstr("100000000 connections, and this process may have "));
}

}  // namespace
}  // namespace moesh::serve
