// How the owners of a mesh's devices hand bytes to each other. Each owner has an end of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace moesh::transport {

// Messages from one owner to another come in the order in which they were sent.
class Endpoint {
 public:
  virtual ~Endpoint() = default;

  // Room for the next message to an owner, to be filled before it is sent. One at a time for each owner.
  virtual std::span<std::byte> room(int to, std::int64_t bytes) = 0;
  virtual void send(int to) = 0;
  // The next message from an owner. It stays until the next one from there is taken.
  virtual std::span<const std::byte> receive(int from) = 0;
};

// For tests: owners in one process that send and receive in turns. What is received has been sent before.
std::vector<std::unique_ptr<Endpoint>> connect_in_turns(int owners);

}  // namespace moesh::transport
