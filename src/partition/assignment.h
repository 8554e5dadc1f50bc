// The choice at one op: which factor each mesh axis goes to.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/factors.h"
#include "partition/partition.h"
#include "partition/reshard_price.h"
#include "partition/wants.h"

namespace moesh::partition {

// What a choice knows about a value.
struct Candidate {
  Shape shape;
  DType dtype = DType::float32;
  std::size_t id = 0;                    // equal ids are the same numbers
  sharding::Spec lies;                   // as it was made, or as a constraint asks
  std::vector<sharding::Spec> versions;  // the layouts that it exists in
  bool asked = false;                    // `lies` is asked for, and so far only the partial sum exists
  bool is_parameter = false;             // or its like in another type or shape
};

struct Question {
  const graph::Node& node;
  graph::OpFactors factors;
  std::vector<Candidate> operands;
  std::vector<Shape> result_shapes;
  std::vector<DType> result_dtypes;
  std::vector<Want> wants;  // of the results
  std::optional<std::vector<int>> agreed;  // by axis, the factor it goes to: there is no choice
};

struct Answers {
  Answer best;
  std::optional<Answer> runner_up;
};

// What choices cost on the target: its chip's kernels and the ways between layouts.
struct Prices {
  Prices(const mesh::Mesh& mesh, const mesh::Topology& target) : chip(target.chip), network(mesh, target), reshards(mesh, network) {}
  Prices(const Prices&) = delete;
  Prices& operator=(const Prices&) = delete;

  const mesh::Chip& chip;
  cost::Network network;
  ReshardPrices reshards;
};

Answers choose(const Question& question, const Prices& prices, const mesh::Mesh& mesh);

// The cheapest of a value's versions to start from; nothing where none can become `to`.
std::optional<sharding::Spec> cheapest_version(const Candidate& value, const sharding::Spec& to, const ReshardPrices& prices,
                                               double* seconds);

}  // namespace moesh::partition
