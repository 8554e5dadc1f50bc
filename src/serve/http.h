// The HTTP interface that the server uses: requests arrive whole, and answers are sent at once or in pieces. The HTTP library is in a
// separate module, which is loaded when a server starts.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace moesh::serve {

struct HttpLimits {
  std::int64_t connections = 1024;        // open at a time; further ones wait to be accepted
  std::int64_t body_bytes = 1 << 20;      // of a request's body
  std::int64_t head_bytes = 32 << 10;     // of a request's first line and headers
  double read_seconds = 30;               // for a whole request to arrive
  double write_seconds = 30;              // for a client to accept the data of one write
  double idle_seconds = 10;               // between requests on a connection
};

struct HttpRequest {
  std::string method, path, content_type, body;
  // encoded: compressed, for instance, and thus not read; broken: its chunks cannot be told apart.
  enum class Body { whole, too_long, cut_short, encoded, broken } came = Body::whole;
  std::function<bool()> is_alive;  // whether the client is still there
};

struct HttpAnswer {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
  // If the answer is sent in pieces: returns the next piece, or none at the end. Throws if the answer is to be cut off.
  std::function<std::optional<std::string>()> next = {};
};

// Answers requests; called by many threads at once.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  virtual HttpAnswer answer(const HttpRequest& request) = 0;
  // The answer with an error status to input that is not a valid HTTP request or that the HTTP library refuses.
  virtual HttpAnswer refusal(int status) = 0;
};

// Answers requests until it is stopped or destroyed.
class HttpServer {
 public:
  virtual ~HttpServer() = default;
  virtual int port() const = 0;
  virtual std::int64_t connections() const = 0;  // number of open connections
  virtual void stop() = 0;
};

// Why a server cannot listen.
struct NotHeard {
  std::string words;
  bool is_for_host = false;  // whether another host rather than another port would help
};

// The default limit of connections, or less if this process may not open that many files.
std::int64_t most_connections();

// Fails if a server could not listen there now.
void check_place(const std::string& host, int port);

// Starts a server; port 0 means any free port. The handler must outlive the server.
std::unique_ptr<HttpServer> listen(const std::string& host, int port, const HttpLimits& limits, HttpHandler& handler);

}  // namespace moesh::serve
