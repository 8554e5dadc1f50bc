// The layout choice at one op: which factor each mesh axis shards.
#pragma once

#include <optional>
#include <vector>

#include "graph/factors.h"
#include "partition/partition.h"
#include "partition/reshard_price.h"
#include "partition/wants.h"

namespace moesh::partition {

// All that is known of an operand when an op is placed.
struct Candidate {
  Shape shape;
  DType dtype = DType::float32;
  std::size_t id = 0;                    // candidates with equal ids are the same value
  sharding::Spec lies;                   // the layout in which it was made, or for which a constraint asks
  std::vector<sharding::Spec> versions;  // the layouts in which it exists
  bool asked = false;                    // a constraint asks for `lies`, but so far only a partial sum exists
  bool is_parameter = false;             // a parameter, or one in another type or shape
  double part_read = 1;                  // the share of it that the kernel reads
};

// An op that is to be placed, with all that the choice depends on.
struct Question {
  const graph::Node& node;
  graph::OpFactors factors;
  std::vector<Candidate> operands;
  std::vector<Shape> result_shapes;
  std::vector<DType> result_dtypes;
  std::vector<Want> wants;  // by result
  std::optional<std::vector<int>> agreed;  // explicit mode: by axis, the factor it shards or -1, which leaves no choice
};

struct Answers {
  Answer best;
  std::optional<Answer> runner_up;
};

// The prices on the target of kernels (by its chip) and of resharding (by its network).
struct Prices {
  Prices(const mesh::Mesh& mesh, const mesh::Topology& target) : chip(target.chip), network(mesh, target), reshards(mesh, network) {}
  Prices(const Prices&) = delete;
  Prices& operator=(const Prices&) = delete;

  const mesh::Chip& chip;
  cost::Network network;
  ReshardPrices reshards;
};

// The cheapest answer, and the next one. `best` has no results if no assignment of the axes is possible.
Answers choose(const Question& question, const Prices& prices, const mesh::Mesh& mesh);

// The version of a value that is cheapest to reshard to `to`, with its seconds; nothing if none can become `to`.
std::optional<sharding::Spec> cheapest_version(const Candidate& value, const sharding::Spec& to, const ReshardPrices& prices,
                                               double* seconds);

}  // namespace moesh::partition
