// How shards of a value in one layout are put together from those in another: worked out once, done at every run.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/kernel.h"
#include "mesh/owners.h"
#include "sharding/blocks.h"
#include "sharding/spec.h"
#include "transport/endpoint.h"

namespace moesh::transport {

using backend::View;
using backend::Workers;
using sharding::Coordinates;
using sharding::Range;

// What is to be done with which value.
struct Move {
  Shape shape;
  sharding::Spec from, to;
};

// One owner's part of it: shards are those of its devices, as OwnedShards counts them, and what it lacks comes from other owners.
// Of devices that have what a device needs, those in its own group send it, so that the bytes are those of the plan.
class Exchange {
 public:
  // All shards are here.
  Exchange(const Move& move, const mesh::Mesh& mesh) : Exchange(move, mesh::Owners(mesh), 0) {}
  Exchange(const Move& move, const mesh::Owners& owners, int self);

  // The two halves of a sum that all devices of a group get whole: each device adds up a piece of it, then sends that to the
  // others. The second half works in place, on the new shards.
  static std::vector<Exchange> all_reduce(const Move& move, const mesh::Owners& owners, int self);

  // Elements that the owner's devices take from other devices, its own among them.
  std::int64_t moved() const { return moved_; }

  void send(std::span<const View> from, Endpoint& wire) const;
  // Each new shard is put together from the old ones that it overlaps; partial sums are added up in the order of
  // mesh/sum_order.h. `wire`: needed where there are other owners.
  void run(std::span<const View> from, std::span<const View> to, Workers* workers = nullptr, Endpoint* wire = nullptr) const;

 private:
  class Needs;
  class Pieces;

  // Elements that stand in both an old shard and a new one, as runs.
  struct Part {
    struct Dim {
      std::int64_t count, from_stride, to_stride;
    };
    std::int64_t from = 0, to = 0;  // of the first element
    std::int64_t run = 1;           // elements that stand one after the other in both
    std::vector<Dim> dims = {};     // over which the runs are spread, the last one fastest

    std::int64_t elements() const;
  };
  // What a device needs, and the devices that have it, in the order in which their values are added up.
  struct Need {
    Part part;
    std::vector<Coordinates> from;
  };
  struct Source {
    int owner = -1;          // -1: here
    std::int64_t index = 0;  // of the view, or of the first element in that owner's message
  };
  struct Work {
    Part part;
    std::vector<Source> sources;
  };
  struct Outgoing {
    std::size_t view;
    Part part;
  };

  Exchange() = default;
  // `Find` gives each device's needs and the axes by which old and new shards are told apart.
  template <typename Find>
  void connect(const Find& find, const mesh::Owners& owners, int self);
  static Part part_of(const std::vector<Range>& from, const std::vector<Range>& to);
  template <typename Visit>
  static void for_each_run(const Part& part, const Visit& visit);
  void make(const Work& work, std::span<const View> from, const View& to, std::span<const std::byte* const> messages,
            Workers* workers) const;
  template <typename T>
  void add_up(const Work& work, std::span<const View> from, const View& to, std::span<const std::byte* const> messages,
              Workers* workers) const;

  std::vector<std::int64_t> steps_;  // of the sums, see mesh::sum_steps
  std::vector<std::vector<Work>> work_;  // of each new shard
  std::vector<std::vector<Outgoing>> outgoing_;  // to each owner
  std::vector<std::int64_t> incoming_;  // elements, from each owner
  std::int64_t moved_ = 0;
};

}  // namespace moesh::transport
