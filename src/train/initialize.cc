#include "train/initialize.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "backend/element.h"
#include "base/random.h"

namespace moesh::train {
namespace {

// FNV-1a: a path's own number.
std::uint32_t number_of(std::string_view path) {
  std::uint32_t hash = 2166136261u;
  for (const char c : path) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

// The spread of a normal cut at two standard deviations, by which the draw is widened again.
constexpr float kTruncatedSpread = 0.87962566103423978f;

template <typename Draw>
void fill(const run::Array& array, backend::Workers& workers, const Draw& draw) {
  constexpr std::int64_t kGrain = 1 << 15;
  backend::for_floating(array.view.dtype, [&]<typename T>() {
    T* values = array.as<T>();
    workers.parallel(array.view.count(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) values[i] = backend::store<T>(draw(static_cast<std::uint64_t>(i)));
    });
  });
}

}  // namespace

run::Array initial_value(const std::string& path, const Shape& shape, DType dtype,
                         const graph::Initializer& initializer, std::int64_t seed, run::Pool& pool,
                         backend::Workers& workers) {
  run::Array array = pool.allocate(shape, dtype);
  const RandomKey key = fold_in(random_key(seed), number_of(path));
  using Kind = graph::Initializer::Kind;
  switch (initializer.kind) {
    case Kind::zeros: fill(array, workers, [](std::uint64_t) { return 0.0f; }); break;
    case Kind::ones: fill(array, workers, [](std::uint64_t) { return 1.0f; }); break;
    case Kind::normal: fill(array, workers, [&](std::uint64_t index) { return random_normal(key, index); }); break;
    case Kind::fan_in: {
      const auto spread = static_cast<float>(1 / (std::sqrt(static_cast<double>(initializer.fan_in)) * initializer.divisor));
      const TruncatedNormal normal(-2, 2);
      fill(array, workers, [&](std::uint64_t index) { return normal.draw(key, index) * spread / kTruncatedSpread; });
      break;
    }
  }
  return array;
}

}  // namespace moesh::train
