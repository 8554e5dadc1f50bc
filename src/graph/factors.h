// How the dims of an op's operands and results relate. A factor is an index that the op iterates over: a mesh axis that shards the factor
// shards every dim that the factor indexes. A factor that the results lack is summed over, so an axis that shards it leaves partial sums.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace moesh::graph {

inline constexpr int kWhole = -1;  // a dim that must be whole on every device

struct Factor {
  std::int64_t size = 1;  // divisible by the number of shards, unless blocks may differ in size
  bool even = false;      // all blocks must have the same size
};

struct OpFactors {
  std::vector<Factor> factors;
  std::vector<std::vector<int>> operands;  // for each dim its factor, or kWhole
  std::vector<std::vector<int>> results;
  // Whether a partial sum as an operand gives a partial sum as the result: for each operand alone, or only if all operands are partial
  // sums.
  std::vector<bool> linear;
  bool linear_together = false;
  double flops = 0;       // per combination of the factors' indices
  bool in_place = false;  // the result overwrites the first operand, and only the part of it that the other operands name is touched
  bool anywhere = false;  // an axis may be assigned to a factor that it shards in no operand and in no wanted result
};

// Fails for an op without a factor rule, which is not sharded by its dims.
OpFactors factors_of(const Graph& graph, const Node& node);

}  // namespace moesh::graph
