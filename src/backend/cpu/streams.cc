// How several streams of a residual are mixed. Matrices are small, so many tokens are worked on side by side: element i of all of them is
// followed by element i + 1 of all of them.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "backend/cpu/kernels.h"
#include "backend/cpu/row_loop.h"
#include "backend/cpu/simd.h"
#include "backend/element.h"
#include "backend/scratch_list.h"
#include "graph/doubly_stochastic.h"

namespace moesh::backend::cpu {
namespace {

constexpr std::int64_t kTokens = 16;  // side by side

// x = exp(x) / sum(exp(x)) over the `count` elements.
template <typename W>
[[gnu::always_inline]] inline void softmax_in_place(W* __restrict x, std::int64_t count) {
  W largest[kTokens], sum[kTokens] = {};
  std::copy_n(x, kTokens, largest);
  for (std::int64_t i = 1; i < count; ++i) {
    for (std::int64_t t = 0; t < kTokens; ++t) largest[t] = std::max(largest[t], x[i * kTokens + t]);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t t = 0; t < kTokens; ++t) {
      x[i * kTokens + t] = exp_of(x[i * kTokens + t] - largest[t]);
      sum[t] += x[i * kTokens + t];
    }
  }
  for (std::int64_t t = 0; t < kTokens; ++t) sum[t] = W(1) / sum[t];
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t t = 0; t < kTokens; ++t) x[i * kTokens + t] *= sum[t];
  }
}

// d = y (d - sum(d y)), where y is the softmax plus `above`.
template <typename W>
[[gnu::always_inline]] inline void softmax_back(const W* __restrict y, W above, W* __restrict d, std::int64_t count) {
  W dot[kTokens] = {};
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t t = 0; t < kTokens; ++t) dot[t] += (y[i * kTokens + t] - above) * d[i * kTokens + t];
  }
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t t = 0; t < kTokens; ++t) d[i * kTokens + t] = (y[i * kTokens + t] - above) * (d[i * kTokens + t] - dot[t]);
  }
}

// The rows or columns of a matrix of K x K.
struct Lines {
  std::int64_t K, of_line, of_element;  // from line to line, and from element to element

  Lines(std::int64_t count, bool are_rows)
      : K(count), of_line((are_rows ? K : 1) * kTokens), of_element((are_rows ? 1 : K) * kTokens) {}
};

// Divides each line by its sum and gives what it was multiplied by.
template <typename W>
[[gnu::always_inline]] inline void divide_lines(const Lines& lines, const W* __restrict x, W* __restrict y, W* __restrict factors) {
  for (std::int64_t line = 0; line < lines.K; ++line) {
    const W* const from = x + line * lines.of_line;
    W sum[kTokens];
    std::fill_n(sum, kTokens, W(graph::kSinkhornEpsilon));
    for (std::int64_t i = 0; i < lines.K; ++i) {
      for (std::int64_t t = 0; t < kTokens; ++t) sum[t] += from[i * lines.of_element + t];
    }
    for (std::int64_t t = 0; t < kTokens; ++t) factors[line * kTokens + t] = sum[t] = W(1) / sum[t];
    for (std::int64_t i = 0; i < lines.K; ++i) {
      for (std::int64_t t = 0; t < kTokens; ++t)
        y[line * lines.of_line + i * lines.of_element + t] = from[i * lines.of_element + t] * sum[t];
    }
  }
}

template <typename W>
[[gnu::always_inline]] inline void divide_lines_back(const Lines& lines, const W* __restrict y, const W* __restrict factors,
                                                     W* __restrict d) {
  for (std::int64_t line = 0; line < lines.K; ++line) {
    const W* const of_y = y + line * lines.of_line;
    W *const of_d = d + line * lines.of_line, dot[kTokens] = {};
    for (std::int64_t i = 0; i < lines.K; ++i) {
      for (std::int64_t t = 0; t < kTokens; ++t) dot[t] += of_d[i * lines.of_element + t] * of_y[i * lines.of_element + t];
    }
    for (std::int64_t i = 0; i < lines.K; ++i) {
      for (std::int64_t t = 0; t < kTokens; ++t)
        of_d[i * lines.of_element + t] = (of_d[i * lines.of_element + t] - dot[t]) * factors[line * kTokens + t];
    }
  }
}

// For each permutation of K streams, the element of the matrix that each of its rows has a 1 at.
std::vector<std::int64_t> permuted(std::int64_t K) {
  std::vector<std::int64_t> columns(static_cast<std::size_t>(K)), made;
  std::iota(columns.begin(), columns.end(), 0);
  do {
    for (std::int64_t row = 0; row < K; ++row) made.push_back(row * K + columns[static_cast<std::size_t>(row)]);
  } while (std::next_permutation(columns.begin(), columns.end()));
  return made;
}

template <typename T>
class Mixing {
  using W = Wide<T>;

 public:
  Mixing(const KernelCall& call, const Shape& matrices)
      : call_(call), K(matrices.back()), count_(elements(matrices) / std::max<std::int64_t>(1, K * K)),
        iterations_(std::get<graph::DoublyStochasticOf>(call.attributes).iterations),
        places_(iterations_ > 0 ? std::vector<std::int64_t>() : permuted(K)), width_(iterations_ > 0 ? K * K : graph::permutations_of(K)) {}

  void run() const {
    for_blocks([&](std::int64_t first, std::int64_t tokens) MOESH_LOOP {
      ScratchList<W> logits(size_of(width_)), made(size_of(K * K)), factors(size_of(K));
      take(call_.operands[0], width_, first, tokens, logits.data());
      if (iterations_ > 0) {
        begin(logits.data());
        W *from = logits.data(), *to = made.data();
        for (std::int64_t step = 1; step < 2 * iterations_; ++step, std::swap(from, to))
          divide_lines(Lines(K, step % 2 == 0), from, to, factors.data());
        give(from, K * K, first, tokens);
      } else {
        softmax_in_place(logits.data(), width_);
        std::fill_n(made.data(), K * K * kTokens, W(0));
        for (std::int64_t i = 0; i < width_ * K; ++i) {
          const W* __restrict weight = logits.data() + i / K * kTokens;
          W* __restrict to = made.data() + places_[static_cast<std::size_t>(i)] * kTokens;
          for (std::int64_t t = 0; t < kTokens; ++t) to[t] += load(store<T>(weight[t]));
        }
        give(made.data(), K * K, first, tokens);
      }
    });
  }

  void run_gradient() const {
    for_blocks([&](std::int64_t first, std::int64_t tokens) MOESH_LOOP {
      ScratchList<W> logits(size_of(width_)), dy(size_of(K * K));
      take(call_.operands[0], width_, first, tokens, logits.data());
      take(call_.operands[1], K * K, first, tokens, dy.data());
      if (iterations_ > 0) {
        go_back(logits.data(), dy.data());
        give(dy.data(), width_, first, tokens);
      } else {
        ScratchList<W> made(size_of(width_));
        softmax_in_place(logits.data(), width_);
        std::fill_n(made.data(), width_ * kTokens, W(0));
        for (std::int64_t i = 0; i < width_ * K; ++i) {
          const W* __restrict from = dy.data() + places_[static_cast<std::size_t>(i)] * kTokens;
          W* __restrict to = made.data() + i / K * kTokens;
          for (std::int64_t t = 0; t < kTokens; ++t) to[t] += from[t];
        }
        softmax_back(logits.data(), W(0), made.data(), width_);
        give(made.data(), width_, first, tokens);
      }
    });
  }

 private:
  static std::size_t size_of(std::int64_t of_token) { return static_cast<std::size_t>(of_token * kTokens); }

  template <typename Body>
  void for_blocks(const Body& body) const {
    const std::int64_t blocks = divide_up(count_, kTokens), work = kTokens * width_ * (4 + 4 * iterations_);
    const Isa isa = chosen_isa();
    call_.workers.parallel(blocks, grain_of(work), [&](std::int64_t begin, std::int64_t end) {
      vectorised(isa, [&]() MOESH_LOOP {
        for (std::int64_t block = begin; block < end; ++block) body(block * kTokens, std::min(kTokens, count_ - block * kTokens));
      });
    });
  }

  // Places behind the last token hold zeros, which are worked on and not given.
  void take(const View& from, std::int64_t width, std::int64_t first, std::int64_t tokens, W* to) const {
    const T* const x = from.as<T>() + first * width;
    std::fill_n(to, width * kTokens, W(0));
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t i = 0; i < width; ++i) to[i * kTokens + t] = load(x[t * width + i]);
    }
  }
  void give(const W* from, std::int64_t width, std::int64_t first, std::int64_t tokens) const {
    T* const y = call_.results[0].template as<T>() + first * width;
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t i = 0; i < width; ++i) y[t * width + i] = store<T>(from[i * kTokens + t]);
    }
  }

  [[gnu::always_inline]] void begin(W* x) const {
    for (std::int64_t row = 0; row < K; ++row) softmax_in_place(x + row * K * kTokens, K);
    for (std::int64_t i = 0; i < K * K * kTokens; ++i) x[i] += W(graph::kSinkhornEpsilon);
  }

  // All matrices on the way are kept, and what lines were multiplied by.
  [[gnu::always_inline]] void go_back(const W* logits, W* d) const {
    const std::int64_t steps = 2 * iterations_ - 1, matrix = K * K * kTokens, lines = K * kTokens;
    ScratchList<W> all(static_cast<std::size_t>((steps + 1) * matrix)), factors(static_cast<std::size_t>(steps * lines));
    std::copy_n(logits, matrix, all.data());
    begin(all.data());
    for (std::int64_t step = 1; step <= steps; ++step) {
      W* const from = all.data() + (step - 1) * matrix;
      divide_lines(Lines(K, step % 2 == 0), from, from + matrix, factors.data() + (step - 1) * lines);
    }
    for (std::int64_t step = steps; step > 0; --step)
      divide_lines_back(Lines(K, step % 2 == 0), all.data() + step * matrix, factors.data() + (step - 1) * lines, d);
    for (std::int64_t row = 0; row < K; ++row)
      softmax_back(all.data() + row * K * kTokens, W(graph::kSinkhornEpsilon), d + row * K * kTokens, K);
  }

  const KernelCall& call_;
  std::int64_t K, count_, iterations_;
  std::vector<std::int64_t> places_;
  std::int64_t width_;
};

}  // namespace

void doubly_stochastic(const KernelCall& call) {
  for_floating(call.results[0].dtype, [&]<typename T>() { Mixing<T>(call, call.results[0].shape).run(); });
}

void doubly_stochastic_grad(const KernelCall& call) {
  for_floating(call.results[0].dtype, [&]<typename T>() { Mixing<T>(call, call.operands[1].shape).run_gradient(); });
}

}  // namespace moesh::backend::cpu
