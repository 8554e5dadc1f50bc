// How the owners of a mesh's devices hand bytes to each other. Each owner has an end of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace moesh::transport {

// What a message belongs to.
struct Place {
  std::int64_t run = 0;          // of the program
  std::int32_t instruction = -1;
  std::int32_t round = 0;

  bool operator==(const Place&) const = default;
};

// Messages from one owner to another come in the order in which they were sent.
class Endpoint {
 public:
  virtual ~Endpoint() = default;

  // Room for the next message to an owner, to be filled before it is sent. One at a time for each owner.
  virtual std::span<std::byte> room(int to, std::int64_t bytes) = 0;
  virtual void send(int to) = 0;
  // The next message from an owner. It stays until the next one from there is taken.
  virtual std::span<const std::byte> receive(int from) = 0;

  // Messages from now on belong there: one that belongs elsewhere is an error, in which `words` tell what places are.
  virtual void set_place(const Place&) {}
  virtual void set_words(std::function<std::string(const Place&)>) {}
};

// For tests: owners in one process that send and receive in turns. What is received has been sent before.
std::vector<std::unique_ptr<Endpoint>> connect_in_turns(int owners);

}  // namespace moesh::transport
