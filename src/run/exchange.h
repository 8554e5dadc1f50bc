// How shards of a value in one layout are put together from those in another: worked out once, done at every run.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mesh/mesh.h"
#include "run/kernel.h"
#include "run/placed.h"
#include "sharding/spec.h"

namespace moesh::run {

class Exchange {
 public:
  Exchange(const Shape& shape, const sharding::Spec& from, const sharding::Spec& to, const mesh::Mesh& mesh);

  // Each new shard is put together from the old ones that it overlaps; partial sums are added up in the order of
  // mesh/sum_order.h. Shards stand as ShardAxes counts them.
  void run(std::span<const View> from, std::span<const View> to, Workers* workers = nullptr) const;

 private:
  // Old shards of one block of the value, each a part of its sum, in the order in which they are added.
  struct Family {
    Coordinates at;
    std::vector<Range> block;
    std::vector<std::uint32_t> shards;
  };
  // Elements that stand in both a family's shards and a new one, as runs.
  struct Part {
    struct Dim {
      std::int64_t count, from_stride, to_stride;
    };
    std::size_t family;
    std::int64_t from = 0, to = 0;  // of the first element
    std::int64_t run = 1;           // elements that stand one after the other in both
    std::vector<Dim> dims;          // over which the runs are spread, the last one fastest
  };

  static Part part_of(const std::vector<Range>& from, const std::vector<Range>& to);
  template <typename Visit>
  static void for_each_run(const Part& part, const Visit& visit);
  void make(std::size_t shard, std::span<const View> from, const View& to, Workers* workers) const;
  template <typename T>
  void add_up(const Part& part, std::span<const View> from, const View& to, Workers* workers) const;
  void copy(const Part& part, const View& from, const View& to) const;

  std::vector<std::int64_t> steps_;  // of the sums, see mesh::sum_steps
  std::vector<Family> families_;
  std::vector<std::vector<Part>> parts_;  // of each new shard
};

}  // namespace moesh::run
