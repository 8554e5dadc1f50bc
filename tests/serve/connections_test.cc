// Connections to a server: several requests on one, heads and bodies that are wrong, too long or late.
#include <fmt/core.h>
#include <gmock/gmock.h>

#include "tests/serve/serving.h"

namespace moesh::serve {
namespace {

using test::answer_to;
using test::HttpClient;
using test::post;
using test::post_of;
using test::Reply;

TEST(Serve, TakesSeveralRequestsOnAConnection) {
  const Serving serving;
  HttpClient client(serving.port());
  const std::string request = post_of(greedy("abc", 4));
  ASSERT_TRUE(client.send(request));
  const std::string text = text_of(client.receive());
  ASSERT_TRUE(client.send(request + post_of("{}") + request)) << "the next ones before an answer came";
  EXPECT_EQ(text_of(client.receive()), text);
  EXPECT_EQ(client.receive().status, 400);
  EXPECT_EQ(text_of(client.receive()), text);
  ASSERT_TRUE(client.send("GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
  EXPECT_EQ(client.receive().status, 200);
  EXPECT_TRUE(client.is_closed());
  const Reply old = answer_to(serving.port(), "POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: 61\r\n\r\n" +
                                                  std::string(R"({"prompt":"abc","stream":true,"temperature":0,"max_tokens":4})"));
  EXPECT_THAT(old.body, ::testing::EndsWith("data: [DONE]\n\n"));
}

TEST(Serve, ClosesConnectionsWhoseRequestsHaveNoCertainEnd) {
  const Serving serving;
  HttpClient client(serving.port());
  ASSERT_TRUE(client.send("GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"));
  EXPECT_EQ(client.receive().headers["connection"], "close");
  EXPECT_TRUE(client.is_closed());
}

// A proxy that reads such a head in another way would take what follows for a part of the body, or for a request of somebody else.
TEST(Serve, RefusesHeadsThatCanBeReadInTwoWays) {
  const Serving serving;
  const std::string body = R"({"prompt":"abc","temperature":0,"max_tokens":1})", length = std::to_string(body.size());
  const std::string hidden = "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n";
  const auto head = [&](const std::string& lines) { return "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + lines; };
  EXPECT_EQ(answer_to(serving.port(), head("Content-Length: " + length + "\r\nContent-Length: " + length + "\r\n\r\n") + body).status, 200);
  for (const std::string& lines :
       {"Content-Length: " + length + "\r\nContent-Length: " + std::to_string(body.size() + hidden.size()) + "\r\n", "Content-Length: +" + length + "\r\n",
        "Content-Length: " + length + "a\r\n", std::string("Content-Length: -1\r\n"), "Content-Length: " + length + ", " + length + "\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: " + length + "\r\n", std::string("Transfer-Encoding: gzip, chunked\r\n"),
        std::string("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), "Host: y\r\nContent-Length: " + length + "\r\n"}) {
    HttpClient client(serving.port());
    ASSERT_TRUE(client.send(head(lines + "\r\n") + body + hidden));
    const Reply reply = client.receive();
    EXPECT_EQ(reply.status, 400) << lines;
    EXPECT_TRUE(client.is_closed()) << lines;
  }
  HttpClient nobodys(serving.port());
  ASSERT_TRUE(nobodys.send("GET /health HTTP/1.1\r\n\r\n"));
  EXPECT_EQ(nobodys.receive().status, 400) << "without a host";
}

// What follows a request that is not understood may be a part of it.
TEST(Serve, ClosesConnectionsWhoseRequestsAreNotUnderstood) {
  const Serving serving;
  for (const std::string& head : {std::string("hello\r\n\r\n"), "GET /" + std::string(9000, 'a') + " HTTP/1.1\r\nHost: x\r\n\r\n",
                                  "GET /health HTTP/1.1\r\nHost: x\r\nX: " + std::string(9000, 'a') + "\r\n\r\n"}) {
    HttpClient client(serving.port());
    ASSERT_TRUE(client.send(head + "GET /health HTTP/1.1\r\nHost: x\r\n\r\n"));
    EXPECT_EQ(client.receive().headers["connection"], "close") << head.substr(0, 20);
    EXPECT_TRUE(client.is_closed());
  }
}

TEST(Serve, SaysAtOnceThatItCannotReadABody) {
  Wanted wanted;
  wanted.limits.read_seconds = 1e6;
  const Serving serving(wanted);
  const std::string head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n", body = greedy("abc", 4);
  const std::string length = fmt::format("Content-Length: {}\r\n\r\n", body.size());
  const auto refused = [&](const std::string& request, int status, const std::string& words) {
    HttpClient client(serving.port());
    ASSERT_TRUE(client.send(request));
    const Reply reply = client.receive();
    EXPECT_EQ(reply.status, status) << request;
    EXPECT_EQ(reply.headers.at("connection"), "close") << request;
    EXPECT_EQ(message_of(reply), words) << request;
    EXPECT_TRUE(client.is_closed()) << request;
  };
  for (const std::string encoding : {"gzip", "br", "x-own", "gzip, identity"})
    refused(head + "Content-Encoding: " + encoding + "\r\n" + length + body, 415, "the body is encoded: send it without Content-Encoding");
  for (const std::string chunk : {"zz\r\nabc\r\n0\r\n\r\n", "\r\n", "ffffffffffffffff\r\nabc"})
    refused(head + "Transfer-Encoding: chunked\r\n\r\n" + chunk, 400, "a chunk of the body does not begin with its size");
  EXPECT_EQ(answer_to(serving.port(), head + "Content-Encoding: identity\r\n" + length + body).status, 200);
}

// By the declared length, so that nobody waits for a body that may never come.
TEST(Serve, RefusesAtOnceWhatIsDeclaredAsTooLong) {
  Wanted wanted;
  wanted.limits.body_bytes = 1000;
  wanted.limits.read_seconds = 1e6;
  const Serving serving(wanted);
  const std::string head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ";
  for (const std::string rest : {"1001\r\n\r\n", "99999999999\r\n\r\n", "5000\r\nExpect: 100-continue\r\n\r\n"}) {
    HttpClient client(serving.port());
    ASSERT_TRUE(client.send(head + rest));
    const Reply reply = client.receive();
    EXPECT_EQ(reply.status, 413) << rest;
    EXPECT_EQ(reply.headers.at("connection"), "close") << rest;
    EXPECT_EQ(message_of(reply), "the body is longer than --max-body");
    EXPECT_TRUE(client.is_closed());
  }
  HttpClient whole(serving.port());
  ASSERT_TRUE(whole.send(post_of(std::string(20'000'000, 'a')))) << "it is heard out, or the client would not read the answer";
  EXPECT_EQ(whole.receive().status, 413);
}

TEST(Serve, HearsBodiesOutThatTurnOutToBeTooLong) {
  Wanted wanted;
  wanted.limits.body_bytes = 1000;
  const Serving serving(wanted);
  HttpClient client(serving.port());
  const std::string long_text(100'000, 'a');
  std::string chunked = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 3; ++i) chunked += "186a0\r\n" + long_text + "\r\n";
  ASSERT_TRUE(client.send(chunked + "0\r\n\r\n"));
  EXPECT_EQ(client.receive().status, 413);
  ASSERT_TRUE(client.send("POST /nothing HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n"));
  EXPECT_EQ(client.receive().status, 404);
  const std::string body = greedy("abc", 4);
  ASSERT_TRUE(client.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" +
                          fmt::format("{:x}\r\n{}\r\n0\r\n\r\n", body.size(), body)));
  EXPECT_EQ(client.receive().status, 200);
}

TEST(Serve, EndsRequestsThatDoNotComeWholeInTime) {
  Wanted wanted;
  wanted.limits.read_seconds = 0.2;
  wanted.limits.idle_seconds = 0.2;
  wanted.limits.head_bytes = 2000;
  const Serving serving(wanted);
  HttpClient silent(serving.port()), halfway(serving.port()), without_body(serving.port()), long_head(serving.port());
  halfway.send("POST /v1/comple");
  without_body.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"prompt\"");
  long_head.send("GET /health HTTP/1.1\r\nHost: x\r\nX: " + std::string(5000, 'a'));
  EXPECT_TRUE(silent.is_closed());
  EXPECT_TRUE(halfway.is_closed());
  const Reply cut = without_body.receive();
  EXPECT_EQ(cut.status, 408);
  EXPECT_EQ(message_of(cut), "the body did not come whole, or not in time");
  EXPECT_TRUE(without_body.is_closed());
  EXPECT_EQ(long_head.receive().status, 400);
  EXPECT_EQ(post(serving.port(), greedy("abc", 4)).status, 200);
}

}  // namespace
}  // namespace moesh::serve
