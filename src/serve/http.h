// What the server asks of HTTP: requests come whole, and answers go out at once or piece by piece. The library lies in a module of its
// own, which is opened when somebody serves.
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
  std::int64_t connections = 1024;        // at a time; more wait to be accepted
  std::int64_t body_bytes = 1 << 20;      // of a request
  std::int64_t head_bytes = 32 << 10;     // of its first line and headers
  double read_seconds = 30;               // in which a request comes whole
  double write_seconds = 30;              // in which a client takes what it is sent
  double idle_seconds = 10;               // between requests of a connection
};

struct HttpRequest {
  std::string method, path, content_type, body;
  enum class Body { whole, too_long, cut_short } came = Body::whole;
  std::function<bool()> is_alive;  // whether the client is still there
};

struct HttpAnswer {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
  // Where the answer comes in pieces, the next one; none at its end. Throws where it is to be cut off.
  std::function<std::optional<std::string>()> next = {};
};

// Called by many threads at once.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  virtual HttpAnswer answer(const HttpRequest& request) = 0;
  // To what is no request of HTTP, or none that is read.
  virtual HttpAnswer refusal(int status) = 0;
};

// Answers until it is stopped or goes.
class HttpServer {
 public:
  virtual ~HttpServer() = default;
  virtual int port() const = 0;
  virtual std::int64_t connections() const = 0;  // that are open
  virtual void stop() = 0;
};

// As many connections as are usual, or as this process may have open.
std::int64_t most_connections();

// Port 0: any that is free. The handler outlives the server.
std::unique_ptr<HttpServer> listen(const std::string& host, int port, const HttpLimits& limits, HttpHandler& handler);

}  // namespace moesh::serve
