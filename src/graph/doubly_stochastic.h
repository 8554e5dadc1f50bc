// How streams of a residual are mixed: by a K x K matrix whose rows and columns sum to 1.
#pragma once

#include <cstdint>

namespace moesh::graph {

// By Sinkhorn and Knopp: a softmax of each row of the logits, to which kSinkhornEpsilon is added, then columns and rows are divided by
// their sums in turns, each this many times, but for the first time of the rows. Or, with no iterations, the mean of all K! permutation
// matrices, in the order in which the permutations of a list are usually listed, weighted by a softmax of K! logits.
struct DoublyStochasticOf {
  std::int64_t iterations = 0;
};

inline constexpr double kSinkhornEpsilon = 1e-6;   // also added to each sum
inline constexpr std::int64_t kMostStreams = 64;
inline constexpr std::int64_t kMostPermuted = 6;

constexpr std::int64_t permutations_of(std::int64_t streams) { return streams <= 1 ? 1 : streams * permutations_of(streams - 1); }

}  // namespace moesh::graph
