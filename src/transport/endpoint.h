// How the owners of a mesh's devices send bytes to each other. Each owner has an endpoint of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace moesh::transport {

// The point of a run that a message belongs to.
struct Place {
  std::int64_t run = 0;          // number of the program's run
  std::int32_t instruction = -1;
  std::int32_t round = 0;

  bool operator==(const Place&) const = default;
};

// Messages from one owner to another arrive in the order in which they were sent.
class Endpoint {
 public:
  virtual ~Endpoint() = default;

  // Room for the next message to an owner, to be filled before it is sent. One message at a time per owner.
  virtual std::span<std::byte> room(int to, std::int64_t bytes) = 0;
  virtual void send(int to) = 0;
  // The next message from an owner, valid until the one after it is received from there.
  virtual std::span<const std::byte> receive(int from) = 0;

  // Sets the place that later messages belong to. Receiving a message of another place is an error, in which `words` describes the places.
  virtual void set_place(const Place&) {}
  virtual void set_words(std::function<std::string(const Place&)>) {}
};

// Owners in one process that send and receive in turns. A message is always sent before it is received.
std::vector<std::unique_ptr<Endpoint>> connect_in_turns(int owners);

}  // namespace moesh::transport
