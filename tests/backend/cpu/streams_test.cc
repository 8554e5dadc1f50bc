// Kernels of the matrices that mix streams.
#include "graph/doubly_stochastic.h"
#include "tests/backend/cpu/kernel_support.h"

namespace moesh::backend::test {
namespace {

using graph::DoublyStochasticOf;

// Tokens that fill blocks, or do not; one stream; many; a few iterations and permutations.
struct Mixed {
  Shape tokens;
  std::int64_t streams, iterations;
};

const std::vector<Mixed>& all_mixed() {
  static const std::vector<Mixed> all{{{2, 5}, 4, 20}, {{1, 16}, 4, 1}, {{33}, 2, 3}, {{1, 70}, 9, 4}, {{3}, 1, 2},
                                      {{2, 9}, 4, 0},  {{40}, 3, 0},    {{5}, 6, 0},  {{2}, 1, 0}};
  return all;
}

Call mixing(DType dtype, const Mixed& of) {
  Shape logits = of.tokens, matrices = of.tokens;
  matrices.insert(matrices.end(), 2, of.streams);
  if (of.iterations > 0) logits = matrices;
  else logits.push_back(graph::permutations_of(of.streams));
  return {Op::doubly_stochastic, DoublyStochasticOf{of.iterations}, {noise(dtype, logits, 1, -3, 3)}, {Tensor(dtype, matrices)}};
}

Call gradient_of_mixing(const Call& call) {
  return {Op::doubly_stochastic_grad,
          call.attributes,
          {call.operands[0], noise(call.results[0].dtype, call.results[0].shape, 2)},
          {call.operands[0]}};
}

TEST(DoublyStochastic, AndItsGradientAreThePlainOnes) {
  for (const Mixed& of : all_mixed()) {
    for (const DType dtype : floating_types()) {
      const Call call = mixing(dtype, of);
      hold_to_plain(call);
      hold_to_plain(gradient_of_mixing(call), dtype == DType::float32 ? 1e-5 : 0);
    }
  }
}

TEST(DoublyStochastic, HasGradientsThatAreItsSlopes) {
  for (const Mixed& of : all_mixed()) {
    const Call call = mixing(DType::float64, of), back = gradient_of_mixing(call);
    hold_to_differences(call, {back.operands.back()}, Op::doubly_stochastic_grad, back.operands, {0});
  }
}

TEST(DoublyStochastic, MakesRowsAndColumnsOfSumOne) {
  for (const Mixed& of : {Mixed{{7}, 4, 60}, Mixed{{7}, 4, 0}}) {
    const Tensor made = run(mixing(DType::float64, of))[0];
    for (std::int64_t token = 0; token < 7; ++token) {
      for (std::int64_t line = 0; line < 4; ++line) {
        double row = 0, column = 0;
        for (std::int64_t i = 0; i < 4; ++i) {
          row += made.at(token * 16 + line * 4 + i);
          column += made.at(token * 16 + i * 4 + line);
        }
        EXPECT_NEAR(row, 1, 5e-6);
        EXPECT_NEAR(column, 1, 5e-6);
      }
    }
  }
}

// The permutations of three in their usual order: the fourth of them is (1, 2, 0).
TEST(DoublyStochastic, IsAPermutationIfOneWeighsAll) {
  const Tensor logits = values(DType::float32, {1, 6}, {0, 0, 0, 200, 0, 0});
  const Call call{Op::doubly_stochastic, DoublyStochasticOf{0}, {logits}, {Tensor(DType::float32, {1, 3, 3})}};
  expect_near(run(call)[0], values(DType::float32, {1, 3, 3}, {0, 1, 0, 0, 0, 1, 1, 0, 0}), 1e-6);
}

}  // namespace
}  // namespace moesh::backend::test
