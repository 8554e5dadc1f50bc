#include "train/initialize.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "backend/cpu/draws.h"
#include "backend/element.h"
#include "base/progress.h"
#include "base/random.h"

namespace moesh::train {
namespace {

// The FNV-1a hash of a path.
std::uint32_t number_of(std::string_view path) {
  std::uint32_t hash = 2166136261u;
  for (const char c : path) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

// The standard deviation of a normal that is cut at two standard deviations. Draws are divided by it to have the spread asked for.
constexpr float kTruncatedSpread = 0.87962566103423978f;

void fill(const run::Array& array, backend::Workers& workers, float value) {
  constexpr std::int64_t kGrain = 1 << 15;
  backend::for_floating(array.view.dtype, [&]<typename T>() {
    workers.parallel(array.view.count(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      std::fill(array.as<T>() + begin, array.as<T>() + end, backend::store<T>(value));
    });
  });
}

void draw(const run::Array& array, backend::Workers& workers, RandomKey key, const backend::cpu::NormalDraws& normal, float spread) {
  constexpr std::int64_t kPiece = 4096;
  backend::for_floating(array.view.dtype, [&]<typename T>() {
    workers.parallel(array.view.count(), kPiece, [&](std::int64_t begin, std::int64_t end) {
      for (; begin < end; begin += kPiece) {
        float drawn[kPiece];
        const std::int64_t count = std::min(kPiece, end - begin);
        normal.draw(key, static_cast<std::uint64_t>(begin), {drawn, static_cast<std::size_t>(count)});
        T* const values = array.as<T>() + begin;
        for (std::int64_t i = 0; i < count; ++i) values[i] = backend::store<T>(drawn[i] * spread);
      }
    });
  });
}

// Logarithms of numbers that are uniform in [1e-9, 16).
void draw_logarithms(const run::Array& array, RandomKey key) {
  constexpr float kLeast = 1e-9f, kLimit = 16;
  backend::for_floating(array.view.dtype, [&]<typename T>() {
    for (std::int64_t i = 0; i < array.view.count(); ++i) {
      const float number = kLeast + random_uniform(key, static_cast<std::uint64_t>(i)) * (kLimit - kLeast);
      array.as<T>()[i] = backend::store<T>(std::log(number));
    }
  });
}

void number(const run::Array& array, std::int64_t numbers) {
  backend::for_floating(array.view.dtype, [&]<typename T>() {
    for (std::int64_t i = 0; i < array.view.count(); ++i) array.as<T>()[i] = backend::store<T>(static_cast<float>(i % numbers));
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
    case Kind::zeros: fill(array, workers, 0); break;
    case Kind::ones: fill(array, workers, static_cast<float>(1 / initializer.divisor)); break;
    case Kind::log_uniform: draw_logarithms(array, key); break;
    case Kind::turns: number(array, initializer.fan_in); break;
    case Kind::normal: draw(array, workers, key, backend::cpu::NormalDraws(), 1); break;
    case Kind::fan_in: {
      const auto spread = static_cast<float>(1 / (std::sqrt(static_cast<double>(initializer.fan_in)) * initializer.divisor));
      if (initializer.has_tails)
        draw(array, workers, key, backend::cpu::NormalDraws(), spread);
      else
        draw(array, workers, key, backend::cpu::NormalDraws(2), spread / kTruncatedSpread);
      break;
    }
  }
  return array;
}

void put_initial_values(const graph::Graph& graph, std::int64_t seed, run::Pool& pool, backend::Workers& workers,
                        const std::function<void(const std::string& path, run::Array value)>& put) {
  const auto is_parameter = [](const graph::Node& node) { return node.op == graph::Op::parameter; };
  Progress progress("parameters", std::count_if(graph.nodes.begin(), graph.nodes.end(), is_parameter));
  std::int64_t done = 0;
  for (const graph::Node& node : graph.nodes) {
    if (!is_parameter(node)) continue;
    progress.advance(done++);
    const graph::Value& value = graph.value(node.results.front());
    const graph::Initializer& initializer = std::get<graph::ParameterOf>(node.attributes).initializer;
    put(node.path, initial_value(node.path, value.shape, value.dtype, initializer, seed, pool, workers));
  }
}

}  // namespace moesh::train
