// A client's connection: reads and writes with limits in time, and tells whether the client is still there.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "base/clock.h"
#include "serve/http.h"

namespace moesh::serve {

class Socket {
 public:
  // Owns the descriptor. `is_ending`: the server does, so nothing is waited for any longer.
  Socket(int descriptor, const HttpLimits& limits, const std::atomic<bool>& is_ending);
  ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  // Whether the first byte of a request came in time. What follows has its limits from here on.
  bool begin_request();
  void end_head() { head_left_ = -1; }  // the bytes that follow are the request's body

  // As read(2); -1 as well when the time is over or the head is too long.
  long read(char* to, std::size_t most);
  bool write(const char* from, std::size_t bytes);

  bool is_readable() const { return begin_ < buffer_.size(); }
  // Not where the client has closed its side.
  bool is_alive() const;
  // What was asked for cannot be read to its end, so nothing can follow it.
  void give_up() { is_given_up_ = true; }
  bool is_given_up() const { return is_given_up_; }
  // Wakes whoever reads.
  void close_reading() const;

 private:
  bool wait(short events, Clock::time_point until) const;
  bool receive(Clock::time_point until);
  // Says that nothing more comes, and takes what the client still sends for a moment, or it may lose what it was told.
  void close_gently();

  int descriptor_;
  const HttpLimits& limits_;
  const std::atomic<bool>& is_ending_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;  // of what was received and not read
  std::int64_t head_left_ = -1;  // bytes; -1: none are counted
  Clock::time_point until_{};
  bool is_given_up_ = false;
};

// A socket that listens, or -1 with `why`. `port` becomes the one that it has.
int listening_socket(const std::string& host, int& port, std::string& why);

}  // namespace moesh::serve
