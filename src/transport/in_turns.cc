// Endpoints for tests, whose owners are in one process and send and receive in turns.
#include <cassert>
#include <deque>
#include <map>

#include "transport/endpoint.h"

namespace moesh::transport {
namespace {

using Message = std::vector<std::byte>;

// Messages from one owner to another: the one that is being filled, those that were sent, and the last one that was received.
struct Line {
  Message next;
  std::deque<Message> sent;
  Message read;
};

struct Lines {
  std::map<std::pair<int, int>, Line> all;
};

class InTurns : public Endpoint {
 public:
  InTurns(int self, std::shared_ptr<Lines> lines) : self_(self), lines_(std::move(lines)) {}

  std::span<std::byte> room(int to, std::int64_t bytes) override {
    Message& next = line(self_, to).next;
    next.resize(static_cast<std::size_t>(bytes));
    return next;
  }
  void send(int to) override {
    Line& of = line(self_, to);
    of.sent.push_back(std::move(of.next));
    of.next = {};
  }
  std::span<const std::byte> receive(int from) override {
    Line& of = line(from, self_);
    assert(!of.sent.empty() && "nothing was sent");
    of.read = std::move(of.sent.front());
    of.sent.pop_front();
    return of.read;
  }

 private:
  Line& line(int from, int to) { return lines_->all[{from, to}]; }

  int self_;
  std::shared_ptr<Lines> lines_;
};

}  // namespace

std::vector<std::unique_ptr<Endpoint>> connect_in_turns(int owners) {
  const auto lines = std::make_shared<Lines>();
  std::vector<std::unique_ptr<Endpoint>> ends;
  for (int owner = 0; owner < owners; ++owner) ends.push_back(std::make_unique<InTurns>(owner, lines));
  return ends;
}

}  // namespace moesh::transport
