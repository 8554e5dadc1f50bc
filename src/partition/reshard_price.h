// The seconds that resharding takes: those of the collectives from one layout to another.
#pragma once

#include <string>
#include <unordered_map>

#include "cost/collective.h"
#include "partition/reshard.h"

namespace moesh::partition {

class ReshardPrices {
 public:
  ReshardPrices(const mesh::Mesh& mesh, const cost::Network& network) : mesh_(mesh), network_(network) {}

  double seconds(const Shape& shape, DType dtype, const sharding::Spec& from, const sharding::Spec& to) const;

 private:
  const mesh::Mesh& mesh_;
  const cost::Network& network_;
  mutable std::unordered_map<std::string, double> known_;  // by everything that a price depends on, as bytes
};

}  // namespace moesh::partition
