// Puts the shards of a value in one layout together from those in another. The work is prepared once, and done at every run.
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

// A value, and the layouts between which it is moved.
struct Move {
  Shape shape;
  sharding::Spec from, to;
};

// One owner's part of a move. Its shards are those of its devices, in the order of OwnedShards; what it lacks comes from other
// owners. If several devices have what a device needs, the one in its own group sends it, so that the bytes are those of the plan.
class Exchange {
 public:
  // For one owner that has all shards.
  Exchange(const Move& move, const mesh::Mesh& mesh) : Exchange(move, mesh::Owners(mesh), 0) {}
  Exchange(const Move& move, const mesh::Owners& owners, int self);

  // The two halves of an all-reduce: each device of a group sums a piece of the value, then sends that piece to the others. The
  // second half works in place, on the new shards.
  static std::vector<Exchange> all_reduce(const Move& move, const mesh::Owners& owners, int self);

  // Elements that the owner's devices receive from other devices, of this owner or of others.
  std::int64_t moved() const { return moved_; }

  void send(std::span<const View> from, Endpoint& wire) const;
  // Puts each new shard together from the old ones that it overlaps, and adds partial sums up in the order of mesh/sum_order.h.
  // `wire`: needed if there are other owners.
  void run(std::span<const View> from, std::span<const View> to, Workers* workers = nullptr, Endpoint* wire = nullptr) const;

 private:
  class Needs;
  class Pieces;

  // The elements that are in both an old shard and a new one, as runs.
  struct Part {
    struct Dim {
      std::int64_t count, from_stride, to_stride;
    };
    std::int64_t from = 0, to = 0;  // offsets of the first element
    std::int64_t run = 1;           // elements that are contiguous in both
    std::vector<Dim> dims = {};     // the dims over which the runs are spread, the last one fastest

    std::int64_t elements() const;
  };
  // What a device needs, and the devices that have it, in the order in which their values are added up.
  struct Need {
    Part part;
    std::vector<Coordinates> from;
  };
  struct Source {
    int owner = -1;          // -1: here
    std::int64_t index = 0;  // index of the view, or of the first element in that owner's message
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
  // `Find` gives each device's needs, and the axes along which old and new shards differ.
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

  std::vector<std::int64_t> steps_;  // sizes of the steps of a sum, see mesh::sum_steps
  std::vector<std::vector<Work>> work_;  // per new shard
  std::vector<std::vector<Outgoing>> outgoing_;  // per receiving owner
  std::vector<std::int64_t> incoming_;  // elements received from each owner
  std::int64_t moved_ = 0;
};

}  // namespace moesh::transport
