// How several streams of a residual are mixed, one matrix at a time.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "backend/element.h"
#include "backend/reference/kernels.h"
#include "graph/doubly_stochastic.h"

namespace moesh::backend::reference {
namespace {

// A matrix, or the matrix of its derivatives.
template <typename W>
struct Square {
  std::int64_t size;
  std::vector<W> all;

  explicit Square(std::int64_t K) : size(K), all(static_cast<std::size_t>(K * K)) {}
  W& at(std::int64_t row, std::int64_t column) { return all[static_cast<std::size_t>(row * size + column)]; }
  // The i-th of a row, or of a column.
  W& at(bool of_row, std::int64_t line, std::int64_t i) { return of_row ? at(line, i) : at(i, line); }
};

template <typename W>
std::vector<W> softmax_of(const std::vector<W>& logits) {
  const W largest = *std::max_element(logits.begin(), logits.end());
  std::vector<W> made;
  for (const W one : logits) made.push_back(std::exp(one - largest));
  const W sum = std::accumulate(made.begin(), made.end(), W(0));
  for (W& one : made) one /= sum;
  return made;
}

template <typename W>
std::vector<W> softmax_back(const std::vector<W>& softmax, const std::vector<W>& dy) {
  const W dot = std::inner_product(softmax.begin(), softmax.end(), dy.begin(), W(0));
  std::vector<W> made;
  for (std::size_t i = 0; i < softmax.size(); ++i) made.push_back(softmax[i] * (dy[i] - dot));
  return made;
}

// The matrices that Sinkhorn and Knopp go through, from the softmax of the rows to the result; those at odd places have had their columns
// divided, and those at even ones behind the first their rows.
template <typename W>
std::vector<Square<W>> steps_of(const std::vector<W>& logits, std::int64_t K, std::int64_t iterations) {
  const W epsilon = W(graph::kSinkhornEpsilon);
  Square<W> now(K);
  for (std::int64_t i = 0; i < K; ++i) {
    const std::vector<W> row = softmax_of(std::vector<W>(logits.begin() + i * K, logits.begin() + (i + 1) * K));
    for (std::int64_t j = 0; j < K; ++j) now.at(i, j) = row[static_cast<std::size_t>(j)] + epsilon;
  }
  std::vector<Square<W>> steps{now};
  for (std::int64_t step = 1; step < 2 * iterations; ++step) {
    const bool of_rows = step % 2 == 0;
    for (std::int64_t line = 0; line < K; ++line) {
      W sum = epsilon;
      for (std::int64_t i = 0; i < K; ++i) sum += now.at(of_rows, line, i);
      for (std::int64_t i = 0; i < K; ++i) now.at(of_rows, line, i) /= sum;
    }
    steps.push_back(now);
  }
  return steps;
}

template <typename W>
std::vector<W> sinkhorn_back(const std::vector<W>& logits, Square<W> d, std::int64_t iterations) {
  const std::int64_t K = d.size;
  std::vector<Square<W>> steps = steps_of(logits, K, iterations);
  for (std::size_t step = steps.size() - 1; step > 0; --step) {
    const bool of_rows = step % 2 == 0;
    for (std::int64_t line = 0; line < K; ++line) {
      W sum = W(graph::kSinkhornEpsilon), dot = 0;
      for (std::int64_t i = 0; i < K; ++i) sum += steps[step - 1].at(of_rows, line, i);
      for (std::int64_t i = 0; i < K; ++i) dot += d.at(of_rows, line, i) * steps[step].at(of_rows, line, i);
      for (std::int64_t i = 0; i < K; ++i) d.at(of_rows, line, i) = (d.at(of_rows, line, i) - dot) / sum;
    }
  }
  std::vector<W> made;
  for (std::int64_t i = 0; i < K; ++i) {
    const std::vector<W> row(logits.begin() + i * K, logits.begin() + (i + 1) * K), dy(d.all.begin() + i * K, d.all.begin() + (i + 1) * K);
    const std::vector<W> back = softmax_back(softmax_of(row), dy);
    made.insert(made.end(), back.begin(), back.end());
  }
  return made;
}

// Calls body(which, row, column) for each 1 of each permutation matrix.
template <typename Body>
void for_permutations(std::int64_t K, const Body& body) {
  std::vector<std::int64_t> columns(static_cast<std::size_t>(K));
  std::iota(columns.begin(), columns.end(), 0);
  std::size_t which = 0;
  do {
    for (std::int64_t row = 0; row < K; ++row) body(which, row, columns[static_cast<std::size_t>(row)]);
    ++which;
  } while (std::next_permutation(columns.begin(), columns.end()));
}

template <typename T>
std::vector<Wide<T>> loaded(const T* from, std::int64_t count) {
  std::vector<Wide<T>> made;
  for (std::int64_t i = 0; i < count; ++i) made.push_back(load(from[i]));
  return made;
}

// Calls body(logits, token), which returns the numbers of the result, for the logits of each matrix.
template <typename T, typename Body>
void for_tokens(const KernelCall& call, std::int64_t count, const Body& body) {
  for (std::int64_t token = 0; token < count; ++token) {
    const std::int64_t width = call.operands[0].count() / count, wide = call.results[0].count() / count;
    const std::vector<Wide<T>> made = body(loaded(call.operands[0].as<T>() + token * width, width), token);
    std::transform(made.begin(), made.end(), call.results[0].as<T>() + token * wide, [](Wide<T> x) { return store<T>(x); });
  }
}

void doubly_stochastic(const KernelCall& call) {
  const std::int64_t iterations = std::get<graph::DoublyStochasticOf>(call.attributes).iterations;
  const std::int64_t K = call.results[0].shape.back();
  for_floating(call.results[0].dtype, [&]<typename T>() {
    using W = Wide<T>;
    for_tokens<T>(call, call.results[0].count() / (K * K), [&](const std::vector<W>& logits, std::int64_t) {
      if (iterations > 0) return steps_of(logits, K, iterations).back().all;
      Square<W> made(K);
      const std::vector<W> weights = softmax_of(logits);
      for_permutations(K, [&](std::size_t which, std::int64_t row, std::int64_t column) {
        made.at(row, column) += load(store<T>(weights[which]));
      });
      return made.all;
    });
  });
}

void doubly_stochastic_grad(const KernelCall& call) {
  const std::int64_t iterations = std::get<graph::DoublyStochasticOf>(call.attributes).iterations;
  const std::int64_t K = call.operands[1].shape.back();
  for_floating(call.results[0].dtype, [&]<typename T>() {
    using W = Wide<T>;
    for_tokens<T>(call, call.operands[1].count() / (K * K), [&](const std::vector<W>& logits, std::int64_t token) {
      Square<W> dy(K);
      dy.all = loaded(call.operands[1].as<T>() + token * K * K, K * K);
      if (iterations > 0) return sinkhorn_back(logits, dy, iterations);
      std::vector<W> dweights(logits.size());
      for_permutations(K, [&](std::size_t which, std::int64_t row, std::int64_t column) { dweights[which] += dy.at(row, column); });
      return softmax_back(softmax_of(logits), dweights);
    });
  });
}

}  // namespace

Kernel find_streams(graph::Op op) {
  switch (op) {
    case graph::Op::doubly_stochastic: return doubly_stochastic;
    case graph::Op::doubly_stochastic_grad: return doubly_stochastic_grad;
    default: return nullptr;
  }
}

}  // namespace moesh::backend::reference
