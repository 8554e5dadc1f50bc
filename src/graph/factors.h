// How the dims of an op's operands and results hang together. A factor is an index that the op runs over: where it
// stands in a dim, an axis that shards the factor shards the dim. A factor that results lack is summed over, so its
// axes leave them partial sums.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace moesh::graph {

inline constexpr int kWhole = -1;  // a dim that must be whole on every device

struct Factor {
  std::int64_t size = 1;  // the number of shards must divide it, unless blocks may differ
  bool even = false;      // blocks may not differ in size
};

struct OpFactors {
  std::vector<Factor> factors;
  std::vector<std::vector<int>> operands;  // a factor, or kWhole, for each dim
  std::vector<std::vector<int>> results;
  // Whether a partial sum in an operand makes a partial sum of the results: of each alone, or of all of them together.
  std::vector<bool> linear;
  bool linear_together = false;
  double flops = 0;       // of each combination of the factors' indices
  bool in_place = false;  // the first operand becomes the result; of neither more is touched than the others say
  bool anywhere = false;  // axes may go to factors where they neither lie nor are wanted
};

// Fails for an op that is not spread over devices by its dims.
OpFactors factors_of(const Graph& graph, const Node& node);

}  // namespace moesh::graph
