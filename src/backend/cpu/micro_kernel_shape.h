// A block's loops over vectors of any kind. Included once for each kind of instructions, inside a namespace without a name, behind:
//   MOESH_TARGET   the attribute that lets functions use these instructions
//   kRows          of a block at most
// and for each type of elements a struct of functions on vectors, here Words.
#pragma once

// Lines that the rows of a block take.
constexpr int kRowRoom = (kRows + 7) / 8 * 8;

template <typename Words, int rows, int vectors>
MOESH_TARGET void multiply_block(const Block<typename Words::Element>& block) {
  using Element = typename Words::Element;
  constexpr int kTogether = MicroKernels<Element>::kTogether;
  const Element* __restrict a = block.a;
  const Element* __restrict b = block.b;
  typename Words::Sum* __restrict c = block.c;
  const std::int64_t b_pitch = block.b_pitch, c_pitch = block.c_pitch;
  typename Words::Vector sum[rows][vectors];
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j) {
      sum[i][j] = Words::zero();
      __builtin_prefetch(c + i * c_pitch + j * Words::kWidth, 1);
    }
  }
  for (std::int64_t step = 0; step < block.steps; ++step, a += kRowRoom * kTogether, b += b_pitch) {
    typename Words::Vector of_b[vectors];
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j) of_b[j] = Words::read(b + j * Words::kWidth * kTogether);
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      const typename Words::Vector of_a = Words::spread(a + i * kTogether);
#pragma GCC unroll 2
      for (int j = 0; j < vectors; ++j) sum[i][j] = Words::multiply_add(of_a, of_b[j], sum[i][j]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < vectors; ++j) Words::write(c + i * c_pitch + j * Words::kWidth, sum[i][j], block.add);
  }
}

template <typename Words, int... row>
MicroKernels<typename Words::Element> all_blocks(std::integer_sequence<int, row...>) {
  return {.rows = kRows,
          .columns = 2 * Words::kWidth,
          .row_room = kRowRoom,
          .whole = {multiply_block<Words, row + 1, 2>...},
          .narrow = {multiply_block<Words, row + 1, 1>...}};
}

template <typename Words>
MicroKernels<typename Words::Element> all_blocks() {
  return all_blocks<Words>(std::make_integer_sequence<int, kRows>());
}
