#include "backend/cpu/column_softmax.h"

#include "backend/cpu/exp_avx512.h"

namespace moesh::backend::cpu {
namespace {

#if defined(__x86_64__)
#define MOESH_TARGET [[gnu::target("avx512f,avx512bw,avx512bf16")]]
#define MOESH_INLINE [[gnu::target("avx512f,avx512bw,avx512bf16"), gnu::always_inline]] inline

MOESH_INLINE void write(float* to, __m512 first, __m512 second) {
  _mm512_storeu_ps(to, first);
  _mm512_storeu_ps(to + 16, second);
}
MOESH_INLINE void write(bfloat16* to, __m512 first, __m512 second) {
  _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(second, first));
}
MOESH_INLINE void write_streaming(float* to, __m512 first, __m512 second) {
  _mm512_stream_ps(to, first);
  _mm512_stream_ps(to + 16, second);
}
MOESH_INLINE void write_streaming(bfloat16* to, __m512 first, __m512 second) {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), (__m512i)_mm512_cvtne2ps_pbh(second, first));
}

template <bool keeps, bool has_slopes, typename E>
MOESH_TARGET void exponentiate_32(std::int64_t rows, const float* base, const float* scores, E* to, float* sums,
                                  const float* slopes, const RowsInBlocks<E>& kept) {
  const __m512 base_0 = _mm512_loadu_ps(base), base_1 = _mm512_loadu_ps(base + 16);
  __m512 sum_0 = _mm512_loadu_ps(sums), sum_1 = _mm512_loadu_ps(sums + 16);
  const std::int64_t together = keeps ? kept.rows : rows;
  for (std::int64_t begin = 0; begin < rows; begin += together) {
    [[maybe_unused]] E* late = keeps ? kept.block(begin) : nullptr;
    for (std::int64_t row = begin; row < std::min(begin + together, rows); ++row, scores += 32, to += 32) {
      __m512 first = exp_of_16(_mm512_sub_ps(_mm512_loadu_ps(scores), base_0));
      __m512 second = exp_of_16(_mm512_sub_ps(_mm512_loadu_ps(scores + 16), base_1));
      sum_0 = _mm512_add_ps(sum_0, first);
      sum_1 = _mm512_add_ps(sum_1, second);
      if constexpr (has_slopes) {
        first = _mm512_mul_ps(first, _mm512_loadu_ps(slopes));
        second = _mm512_mul_ps(second, _mm512_loadu_ps(slopes + 16));
        slopes += 32;
      }
      write(to, first, second);
      if constexpr (keeps) {
        write_streaming(late, first, second);
        late += 32;
      }
    }
  }
  _mm512_storeu_ps(sums, sum_0);
  _mm512_storeu_ps(sums + 16, sum_1);
}
#endif

}  // namespace

template <int kColumns, typename W, typename E>
void exponentiate(Isa isa, std::int64_t rows, const W* base, const W* scores, E* to, W* sums, const W* slopes,
                  const RowsInBlocks<E>& kept) {
#if defined(__x86_64__)
  if constexpr (kColumns == 32 && std::is_same_v<W, float>) {
    if (isa >= (std::is_same_v<E, bfloat16> ? Isa::avx512_bf16 : Isa::avx512)) {
      return with_constant(kept.first != nullptr, [&](auto keeps) {
        with_constant(slopes != nullptr, [&](auto has_slopes) {
          exponentiate_32<keeps, has_slopes>(rows, base, scores, to, sums, slopes, kept);
        });
      });
    }
  }
#endif
  vectorised(isa, [&]() MOESH_LOOP {
    W from[kColumns], sum[kColumns];
    for (int j = 0; j < kColumns; ++j) from[j] = base[j];
    for (int j = 0; j < kColumns; ++j) sum[j] = sums[j];
    for (std::int64_t row = 0; row < rows; ++row) {
      const W* x = scores + row * kColumns;
      E* y = to + row * kColumns;
      MOESH_BY_ELEMENT
      for (int j = 0; j < kColumns; ++j) {
        const W exponential = exp_of(x[j] - from[j]);
        y[j] = store<E>(slopes == nullptr ? exponential : exponential * slopes[row * kColumns + j]);
        sum[j] += exponential;
      }
    }
    for (int j = 0; j < kColumns; ++j) sums[j] = sum[j];
  });
  if (kept.first == nullptr) return;
  for (std::int64_t row = 0; row < rows; row += kept.rows) {
    std::copy_n(to + row * kColumns, std::min(kept.rows, rows - row) * kColumns, kept.block(row));
  }
}

#define MOESH_EXPONENTIATE(W, E)                                                                                         \
  template void exponentiate<8, W, E>(Isa, std::int64_t, const W*, const W*, E*, W*, const W*, const RowsInBlocks<E>&);  \
  template void exponentiate<16, W, E>(Isa, std::int64_t, const W*, const W*, E*, W*, const W*, const RowsInBlocks<E>&); \
  template void exponentiate<32, W, E>(Isa, std::int64_t, const W*, const W*, E*, W*, const W*, const RowsInBlocks<E>&)
MOESH_EXPONENTIATE(float, float);
MOESH_EXPONENTIATE(float, bfloat16);
MOESH_EXPONENTIATE(double, double);
#undef MOESH_EXPONENTIATE

template <typename W>
void cap_scores(Isa isa, std::int64_t count, W inner, W cap, W* scores, W* slopes) {
  vectorised(isa, [=]() MOESH_LOOP {
    with_constant(slopes != nullptr, [=](auto keeps_slopes) MOESH_LOOP {
      MOESH_BY_ELEMENT
      for (std::int64_t i = 0; i < count; ++i) {
        const TanhAndSlope<W> of = tanh_and_slope_of(scores[i] * inner);
        scores[i] = of.tanh * cap;
        if constexpr (keeps_slopes) slopes[i] = of.slope;
      }
    });
  });
}

template void cap_scores<float>(Isa, std::int64_t, float, float, float*, float*);
template void cap_scores<double>(Isa, std::int64_t, double, double, double*, double*);

}  // namespace moesh::backend::cpu
