// The fastest way from one layout to another, and its price.
#pragma once

#include <string>
#include <unordered_map>

#include "cost/collective.h"
#include "partition/reshard.h"

namespace moesh::partition {

// Of two choices the later one must be cheaper than this share of the earlier one: by more than rounding.
inline constexpr double kClearly = 1 - 1e-9;

struct Resharding {
  std::vector<ReshardStep> steps;
  double seconds = 0;  // of all of them
};

// Appends a spec to the key of something known, as bytes that no other spec has.
void append_to(std::string& key, const sharding::Spec& spec);

class ReshardPrices {
 public:
  ReshardPrices(const mesh::Mesh& mesh, const cost::Network& network) : mesh_(mesh), network_(network) {}

  const Resharding& fastest(const Shape& shape, DType dtype, const sharding::Spec& from, const sharding::Spec& to) const;

 private:
  const mesh::Mesh& mesh_;
  const cost::Network& network_;
  mutable std::unordered_map<std::string, Resharding> known_;  // by everything that a price depends on, as bytes
};

}  // namespace moesh::partition
