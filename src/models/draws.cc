#include "models/draws.h"

#include <bit>
#include <numeric>

#include "base/random.h"

namespace moesh::models {

std::vector<std::int32_t> draw_keys(std::int64_t seed, std::int64_t step, std::int64_t layers) {
  const RandomKey of_step = fold_in(random_key(seed), static_cast<std::uint32_t>(step));
  std::vector<std::int32_t> keys;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const RandomKey key = fold_in(of_step, static_cast<std::uint32_t>(layer));
    keys.push_back(std::bit_cast<std::int32_t>(key.high));
    keys.push_back(std::bit_cast<std::int32_t>(key.low));
  }
  return keys;
}

std::vector<std::int32_t> token_numbers(std::int64_t rows, std::int64_t length) {
  std::vector<std::int32_t> numbers(static_cast<std::size_t>(rows * length));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

}  // namespace moesh::models
