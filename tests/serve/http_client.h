// An HTTP client that can behave as oddly as a test wants.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/text.h"

namespace moesh::test {

struct Reply {
  int status = 0;  // 0 if none came
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

// A connection to this machine.
class HttpClient {
 public:
  explicit HttpClient(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) close();
  }
  ~HttpClient() { close(); }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  bool is_connected() const { return socket_ >= 0; }
  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }

  // Returns whether all bytes were sent.
  bool send(const std::string& bytes) {
    std::size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t now = ::send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (now <= 0) return false;
      sent += static_cast<std::size_t>(now);
    }
    return true;
  }

  // Receives the next answer and joins its chunks.
  Reply receive() {
    Reply reply;
    std::string line = next_line();
    if (!line.starts_with("HTTP/1.1 ")) return reply;
    reply.status = static_cast<int>(parse_integer(line.substr(9, 3)).value_or(-1));
    for (line = next_line(); !line.empty(); line = next_line()) {
      const std::size_t colon = line.find(": ");
      if (colon != std::string::npos) reply.headers[lower(line.substr(0, colon))] = line.substr(colon + 2);
    }
    if (reply.headers.contains("content-length")) {
      reply.body = next(static_cast<std::size_t>(parse_integer(reply.headers["content-length"]).value_or(0)));
    } else if (reply.headers["transfer-encoding"] == "chunked") {
      reply.body = pieces();
    } else {
      while (more()) {
      }
      reply.body = std::exchange(read_, {});
    }
    return reply;
  }
  // Reads the next line. At the end of the connection it returns what is left, possibly nothing.
  std::string next_line() {
    std::size_t end = 0;
    while ((end = read_.find("\r\n")) == std::string::npos) {
      if (!more()) return std::exchange(read_, {});
    }
    const std::string line = read_.substr(0, end);
    read_.erase(0, end + 2);
    return line;
  }
  // Whether the server closes the connection without sending anything more.
  bool is_closed() {
    return read_.empty() && !more();
  }

 private:
  bool more() {
    char bytes[4096];
    const ssize_t got = ::recv(socket_, bytes, sizeof bytes, 0);
    if (got > 0) read_.append(bytes, static_cast<std::size_t>(got));
    return got > 0;
  }
  std::string next(std::size_t count) {
    while (read_.size() < count && more()) {
    }
    const std::string bytes = read_.substr(0, count);
    read_.erase(0, bytes.size());
    return bytes;
  }
  std::string pieces() {
    std::string all;
    while (true) {
      const std::size_t size = std::strtoul(next_line().c_str(), nullptr, 16);
      all += next(size);
      next_line();
      if (size == 0) return all;
    }
  }

  int socket_;
  std::string read_;
};

inline std::string post_of(const std::string& body, const std::string& path = "/v1/completions", const std::string& type = "application/json") {
  return "POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Type: " + type + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

inline Reply answer_to(int port, const std::string& request) {
  HttpClient client(port);
  client.send(request);
  return client.receive();
}

inline Reply get(int port, const std::string& path) { return answer_to(port, "GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n"); }
inline Reply post(int port, const std::string& body) { return answer_to(port, post_of(body)); }

}  // namespace moesh::test
