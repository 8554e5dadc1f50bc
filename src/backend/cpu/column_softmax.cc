#include "backend/cpu/column_softmax.h"

namespace moesh::backend::cpu {

template <int kColumns, typename W, typename E>
void exponentiate(Isa isa, std::int64_t rows, const W* base, const W* scores, E* to, W* sums) {
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
        y[j] = store<E>(exponential);
        sum[j] += exponential;
      }
    }
    for (int j = 0; j < kColumns; ++j) sums[j] = sum[j];
  });
}

#define MOESH_EXPONENTIATE(W, E)                                                             \
  template void exponentiate<8, W, E>(Isa, std::int64_t, const W*, const W*, E*, W*);  \
  template void exponentiate<16, W, E>(Isa, std::int64_t, const W*, const W*, E*, W*); \
  template void exponentiate<32, W, E>(Isa, std::int64_t, const W*, const W*, E*, W*)
MOESH_EXPONENTIATE(float, float);
MOESH_EXPONENTIATE(float, bfloat16);
MOESH_EXPONENTIATE(double, double);
#undef MOESH_EXPONENTIATE

}  // namespace moesh::backend::cpu
