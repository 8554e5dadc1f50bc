// Mixes several sources in given shares.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "config/settings.h"
#include "data/source.h"

namespace moesh::data {

// A path, and its share of the rows; 1 if it is the only one.
struct WeightedPath {
  std::string path;
  double weight = 1;
};

// The paths that a key names: one path, or "A,0.7;B,0.3". Those of weight 0 are left out. Refuses what is not a weight, and weights that
// sum to 0.
std::vector<WeightedPath> weighted_paths(const config::Settings& settings, const char* key);

struct Weighted {
  std::unique_ptr<TokenSource> source;
  double weight = 1;
};

// Rows come in blocks, at the end of each of which every source has given its share, to within a row or so. Which source gives a row
// depends only on the row's number.
std::unique_ptr<TokenSource> blended(std::vector<Weighted> sources, std::int64_t seed);

// The rows of one round through each source, one source after the other.
std::unique_ptr<TokenSource> one_after_the_other(std::vector<std::unique_ptr<TokenSource>> sources);

}  // namespace moesh::data
