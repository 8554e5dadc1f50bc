#include "serve/http/socket.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace moesh::serve {
namespace {

constexpr std::size_t kReceived = 16 << 10;  // bytes received at a time
constexpr long kGlance = 100;            // milliseconds after which a writer checks whether the server is ending
constexpr long kLongest = 1'000'000;     // milliseconds that a poll lasts at most
constexpr double kGentleSeconds = 1;     // for a client to send more that is discarded
constexpr double kSecondsAtTheEnd = 1;   // that a wait may still last when the server is ending
constexpr int kBacklog = 4096;           // connections that may wait to be accepted

Clock::time_point in(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

Socket::Socket(int descriptor, const HttpLimits& limits, const std::atomic<bool>& is_ending)
    : descriptor_(descriptor), limits_(limits), is_ending_(is_ending) {
  const int on = 1;
  ::setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Socket::~Socket() {
  if (!is_ending_) close_gently();
  ::close(descriptor_);
}

// A reader is woken when the server ends (see close_reading); a writer checks at intervals.
bool Socket::wait(short events, Clock::time_point until) const {
  while (true) {
    if (is_ending_) until = std::min(until, in(kSecondsAtTheEnd));
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd of{descriptor_, events, 0};
    const int ready = ::poll(&of, 1, static_cast<int>(std::clamp<long>(left, 0, events == POLLOUT ? kGlance : kLongest)));
    if (ready > 0) return true;
    if (left <= 0 || (ready < 0 && errno != EINTR)) return false;
  }
}

bool Socket::receive(Clock::time_point until) {
  while (wait(POLLIN, until)) {
    buffer_.resize(kReceived);
    const ssize_t got = ::recv(descriptor_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    buffer_.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    begin_ = 0;
    if (got > 0) return true;
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) return false;
  }
  return false;
}

bool Socket::begin_request() {
  if (is_ending_ || (!is_readable() && !receive(in(limits_.idle_seconds)))) return false;
  until_ = in(limits_.read_seconds);
  head_left_ = limits_.head_bytes;
  return true;
}

long Socket::read(char* to, std::size_t most) {
  if (head_left_ == 0 || (!is_readable() && !receive(until_))) {
    give_up();
    return -1;
  }
  std::size_t count = std::min(most, buffer_.size() - begin_);
  if (head_left_ > 0) {
    count = std::min(count, static_cast<std::size_t>(head_left_));
    head_left_ -= static_cast<std::int64_t>(count);
  }
  std::copy_n(buffer_.data() + begin_, count, to);
  begin_ += count;
  return static_cast<long>(count);
}

bool Socket::write(const char* from, std::size_t bytes) {
  const Clock::time_point until = in(limits_.write_seconds);
  while (bytes > 0) {
    const ssize_t sent = ::send(descriptor_, from, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    const bool is_full = sent < 0 && (errno == EAGAIN || errno == EINTR);
    if (sent < 0 && (!is_full || !wait(POLLOUT, until))) {
      give_up();
      return false;
    }
    from += std::max<ssize_t>(sent, 0);
    bytes -= static_cast<std::size_t>(std::max<ssize_t>(sent, 0));
  }
  return true;
}

bool Socket::is_alive() const {
  char byte = 0;
  const ssize_t got = ::recv(descriptor_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return !is_given_up_ && (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR)));
}

void Socket::close_reading() const { ::shutdown(descriptor_, SHUT_RD); }

void Socket::close_gently() {
  ::shutdown(descriptor_, SHUT_WR);
  const auto until = in(limits_.read_seconds);
  while (receive(std::min(until, in(kGentleSeconds)))) {
  }
}

int listening_socket(const std::string& host, int& port, NotHeard& why) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  const int unknown = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (unknown != 0) {
    why = {::gai_strerror(unknown), true};
    return -1;
  }
  int made = -1;
  for (const addrinfo* at = found; at != nullptr && made < 0; at = at->ai_next) {
    const int candidate = ::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
    const int on = 1;
    ::setsockopt(candidate, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (candidate >= 0 && ::bind(candidate, at->ai_addr, at->ai_addrlen) == 0 && ::listen(candidate, kBacklog) == 0) {
      made = candidate;
      break;
    }
    why = {std::strerror(errno), errno == EADDRNOTAVAIL};
    if (candidate >= 0) ::close(candidate);
  }
  ::freeaddrinfo(found);
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (made >= 0 && ::getsockname(made, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
    const bool is_v6 = address.ss_family == AF_INET6;
    port = ntohs(is_v6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
  }
  return made;
}

}  // namespace moesh::serve
