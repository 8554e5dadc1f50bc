// Several sources in given shares.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/settings.h"
#include "data/source.h"

namespace moesh::data {

// A path, and its share of the rows; 1 where it stands alone.
struct WeightedPath {
  std::string path;
  double weight = 1;
};

// What a key names: a path, or "A,0.7;B,0.3". Those of weight 0 are left out. Refuses what is no weight, and weights that sum to nothing.
std::vector<WeightedPath> weighted_paths(const config::Settings& settings, const char* key);

struct Weighted {
  std::unique_ptr<TokenSource> source;
  double weight = 1;
};

// After any number of rows each has given its share of them, to one row or so; which row is whose follows from its number.
std::unique_ptr<TokenSource> blended(std::vector<Weighted> sources, std::int64_t seed);

// All rows of one round of each, one source after the other.
std::unique_ptr<TokenSource> one_after_the_other(std::vector<std::unique_ptr<TokenSource>> sources);

}  // namespace moesh::data
