// Random products of every kind of instructions, compared with sums in float64.
#include "backend/cpu/gemm.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <random>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "backend/cpu/isa.h"
#include "backend/element.h"
#include "backend/workers.h"
#include "tests/backend/cpu/tile_emulator.h"

namespace moesh::backend::cpu {
namespace {

// Sizes around those at which kernels do something else, layouts with and without gaps, and rows of the result in any order.
template <typename A, typename B, typename C>
class RandomProduct {
 public:
  explicit RandomProduct(unsigned seed) : random_(seed) {
    rows_ = size(140, {5, 8, 16, 32, 48, 64, 96, 128});
    columns_ = size(200, {16, 32, 64, 96, 256, 1056, 16500});
    depth_ = size(300, {32, 64, 512, 544, 1024, 1536, 1600, 3104});
    if (rows_ * columns_ * depth_ > kMost) columns_ = 1 + draw(40);
    if (rows_ * columns_ * depth_ > kMost) rows_ = 1 + draw(40);
    a_runs_ = draw(2) == 0;
    b_runs_ = draw(2) == 0;
    adds_ = draw(2) == 0;
    a_pitch_ = (a_runs_ ? depth_ : rows_) + gap(9);
    b_pitch_ = (b_runs_ ? columns_ : depth_) + gap(9);
    c_pitch_ = columns_ + gap(40);
    fill(a_, (a_runs_ ? rows_ : depth_) * a_pitch_);
    fill(b_, (b_runs_ ? depth_ : columns_) * b_pitch_);
    fill(before_, rows_ * c_pitch_);
    c_rows_.resize(static_cast<std::size_t>(rows_));
    lay_steps(0, c_pitch_, rows_, c_rows_.data());
    is_shuffled_ = draw(5) == 0;
    if (is_shuffled_) std::shuffle(c_rows_.begin(), c_rows_.end(), random_);
    some_rows_ = 1 + draw(rows_);
  }

  std::vector<C> product(Isa isa, Workers* workers) const { return product_of_rows(isa, workers, 0, rows_); }

  // Whether some of the rows have other bits if they are multiplied by themselves.
  bool depends_on_other_rows(Isa isa, const std::vector<C>& c) const {
    const std::int64_t first = rows_ - some_rows_;
    const std::vector<C> alone = product_of_rows(isa, nullptr, first, some_rows_);
    for (std::int64_t i = first; i < rows_; ++i) {
      if (std::memcmp(&alone[at(i, 0)], &c[at(i, 0)], static_cast<std::size_t>(columns_) * sizeof(C)) != 0) return true;
    }
    return false;
  }

  // What is wrong with some elements of a product, among them those at its edges; empty if nothing is.
  std::string fault_of(const std::vector<C>& c) {
    for (std::int64_t i = 0; i < rows_; ++i) {
      for (std::int64_t j = columns_; j < c_pitch_; ++j) {
        if (std::memcmp(&c[at(i, j)], &before_[at(i, j)], sizeof(C)) != 0) return "writes beside the result" + words();
      }
    }
    for (int n = 0; n < 300; ++n) {
      const std::int64_t i = n % 3 == 0 ? rows_ - 1 - std::min(rows_ - 1, draw(17)) : draw(rows_);
      const std::int64_t j = n % 5 == 0 ? columns_ - 1 - std::min(columns_ - 1, draw(17)) : draw(columns_);
      double sum = adds_ ? number(before_[at(i, j)]) : 0, size = std::abs(sum);
      for (std::int64_t p = 0; p < depth_; ++p) {
        const double term = number(a_[place(a_runs_, a_pitch_, i, p)]) * number(b_[place(b_runs_, b_pitch_, p, j)]);
        sum += term;
        size += std::abs(term);
      }
      const double rounded = std::is_same_v<C, bfloat16> ? std::abs(sum) / 256 + 1e-5 * size : 0;
      if (!(std::abs(number(c[at(i, j)]) - sum) <= rounded + 3e-6 * size))
        return fmt::format("{}, {} is {}, not {}", i, j, number(c[at(i, j)]), sum) + words();
    }
    return "";
  }

  std::string words() const {
    return fmt::format(" ({} x {} x {}, a {} at {}, b {} at {}, c at {}, {}; {} rows)", rows_, columns_, depth_, a_runs_, a_pitch_, b_runs_,
                       b_pitch_, c_pitch_, adds_ ? "added" : "new", some_rows_);
  }

 private:
  static constexpr std::int64_t kMost = 20'000'000;

  std::vector<C> product_of_rows(Isa isa, Workers* workers, std::int64_t first, std::int64_t count) const {
    std::vector<C> c = before_;
    const OffsetList one = steps(1, 0), a_rows = steps(count, a_runs_ ? a_pitch_ : 1), a_depth = steps(depth_, a_runs_ ? 1 : a_pitch_);
    const OffsetList b_depth = steps(depth_, b_runs_ ? b_pitch_ : 1), b_columns = steps(columns_, b_runs_ ? 1 : b_pitch_);
    const ScratchList<std::int64_t> shuffled(c_rows_.begin() + first, c_rows_.begin() + first + count);
    const OffsetList c_rows = is_shuffled_ ? OffsetList(shuffled) : steps(count, c_pitch_);
    multiply<A, B, C>(workers, isa, {a_.data() + place(a_runs_, a_pitch_, first, 0), one, a_rows, a_depth},
                      {b_.data(), one, b_depth, b_columns},
                      {c.data() + (is_shuffled_ ? 0 : first * c_pitch_), one, c_rows, steps(columns_, 1)}, {.add = adds_});
    return c;
  }

  std::int64_t draw(std::int64_t count) { return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(count)); }
  std::int64_t size(std::int64_t most, std::initializer_list<std::int64_t> others) {
    return draw(3) > 0 ? 1 + draw(most) : others.begin()[draw(static_cast<std::int64_t>(others.size()))];
  }
  std::int64_t gap(std::int64_t most) { return draw(3) > 0 ? 0 : draw(most); }
  template <typename T>
  void fill(std::vector<T>& values, std::int64_t count) {
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(store<T>(normal(random_)));
  }
  template <typename T>
  static double number(T value) {
    return static_cast<double>(load(value));
  }
  static std::size_t place(bool runs, std::int64_t pitch, std::int64_t i, std::int64_t j) {
    return static_cast<std::size_t>(runs ? i * pitch + j : j * pitch + i);
  }
  std::size_t at(std::int64_t row, std::int64_t column) const {
    return static_cast<std::size_t>(c_rows_[static_cast<std::size_t>(row)] + column);
  }

  std::mt19937_64 random_;
  std::int64_t rows_, columns_, depth_, a_pitch_, b_pitch_, c_pitch_;
  std::int64_t some_rows_;
  bool a_runs_, b_runs_, adds_, is_shuffled_;
  std::vector<A> a_;
  std::vector<B> b_;
  std::vector<C> before_;
  ScratchList<std::int64_t> c_rows_;
};

template <typename A, typename B, typename C>
void hold_random_products(unsigned seeds) {
  test::emulate_tiles();
  Workers workers(3);
  for (const Isa isa : kIsas) {
    if (!can_run(isa)) continue;
    for (unsigned seed = 0; seed < seeds; ++seed) {
      RandomProduct<A, B, C> random(seed);
      const std::vector<C> c = random.product(isa, nullptr);
      ASSERT_EQ(random.fault_of(c), "") << name_of(isa) << ", seed " << seed;
      const std::vector<C> by_several = random.product(isa, &workers);
      ASSERT_EQ(std::memcmp(c.data(), by_several.data(), c.size() * sizeof(C)), 0)
          << name_of(isa) << ", seed " << seed << ": other bits on several threads" << random.words();
      ASSERT_FALSE(random.depends_on_other_rows(isa, c))
          << name_of(isa) << ", seed " << seed << ": other bits without the other rows" << random.words();
    }
  }
}

TEST(RandomProducts, AreSumsOfProducts) {
  hold_random_products<bfloat16, bfloat16, bfloat16>(80);
  hold_random_products<bfloat16, bfloat16, float>(120);
  hold_random_products<float, float, float>(40);
}

}  // namespace
}  // namespace moesh::backend::cpu
