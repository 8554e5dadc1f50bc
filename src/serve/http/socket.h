// A client's connection: reads and writes with time limits, and tells whether the client is still connected.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "base/clock.h"
#include "serve/http.h"

namespace moesh::serve {

class Socket {
 public:
  // Owns the descriptor. `is_ending`: whether the server is ending, after which waits last a second at most.
  Socket(int descriptor, const HttpLimits& limits, const std::atomic<bool>& is_ending);
  ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  // Whether the first byte of a request came in time. The limits on the rest of the request count from then on.
  bool begin_request();
  void end_head() { head_left_ = -1; }  // the bytes that follow are the request's body

  // As read(2), but also returns -1 at the end of the stream, after the time limit, or if the head is too long.
  long read(char* to, std::size_t most);
  bool write(const char* from, std::size_t bytes);

  bool is_readable() const { return begin_ < buffer_.size(); }
  // False once the client has closed its side.
  bool is_alive() const;
  // The current request cannot be completed, so no other may follow on this connection.
  void give_up() { is_given_up_ = true; }
  bool is_given_up() const { return is_given_up_; }
  bool is_head_too_long() const { return head_left_ == 0; }
  // Wakes a thread that is reading.
  void close_reading() const;

 private:
  bool wait(short events, Clock::time_point until) const;
  bool receive(Clock::time_point until);
  // Shuts down the sending side and discards what the client still sends, until it pauses; otherwise the client might lose the answer.
  void close_gently();

  int descriptor_;
  const HttpLimits& limits_;
  const std::atomic<bool>& is_ending_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;  // first byte of buffer_ that was not read
  std::int64_t head_left_ = -1;  // bytes that the head may still take; -1 while reading a body
  Clock::time_point until_{};
  bool is_given_up_ = false;
};

// A listening socket, or -1 with the reason in `why`. `port` is set to the actual port.
int listening_socket(const std::string& host, int& port, NotHeard& why);

}  // namespace moesh::serve
