// A block's loops over vectors of any kind. Included once for each kind of instructions, inside a namespace without a name, behind
// MOESH_INSTRUCTIONS, their names for the compiler, and kRows, of a block at most.
#pragma once

#define MOESH_TARGET [[gnu::target(MOESH_INSTRUCTIONS)]]
#define MOESH_INLINE [[gnu::target(MOESH_INSTRUCTIONS), gnu::always_inline]] inline

// What blocks do with vectors, here of BITS bits: _mm512_add_ps has the bits 512 and the suffix ps.
#define MOESH_VECTORS(NAME, ELEMENT, VECTOR, BITS, SUFFIX)                                                                     \
  struct NAME {                                                                                                                \
    using Element = ELEMENT;                                                                                                   \
    using Sum = ELEMENT;                                                                                                       \
    using Vector = VECTOR;                                                                                                     \
    static constexpr int kWidth = BITS / 8 / sizeof(Element);                                                                  \
    MOESH_INLINE static Vector zero() { return _mm##BITS##_setzero_##SUFFIX(); }                                               \
    MOESH_INLINE static Vector read(const Element* p) { return _mm##BITS##_loadu_##SUFFIX(p); }                                \
    MOESH_INLINE static Vector spread(const Element* p) { return _mm##BITS##_set1_##SUFFIX(*p); }                              \
    MOESH_INLINE static Vector multiply_add(Vector a, Vector b, Vector sum) { return _mm##BITS##_fmadd_##SUFFIX(a, b, sum); }  \
    MOESH_INLINE static void write(Sum* p, Vector sum, bool add) {                                                             \
      _mm##BITS##_storeu_##SUFFIX(p, add ? _mm##BITS##_add_##SUFFIX(_mm##BITS##_loadu_##SUFFIX(p), sum) : sum);                \
    }                                                                                                                          \
  }

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
  const bool add = block.add;
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
    for (int j = 0; j < vectors; ++j) Words::write(c + i * c_pitch + j * Words::kWidth, sum[i][j], add);
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
