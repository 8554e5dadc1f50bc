#include "backend/cpu/column_softmax.h"

namespace moesh::backend::cpu {

template <int kColumns, typename T>
void exponentiate(Isa isa, bool rounds_them, std::int64_t rows, const Wide<T>* base, Wide<T>* scores, Wide<T>* sums) {
  using W = Wide<T>;
  vectorised(isa, [&]() MOESH_LOOP {
    with_constant(rounds_them, [&](auto rounds) MOESH_LOOP {
      W from[kColumns], sum[kColumns];
      for (int j = 0; j < kColumns; ++j) from[j] = base[j];
      for (int j = 0; j < kColumns; ++j) sum[j] = sums[j];
      for (std::int64_t t = 0; t < rows; ++t) {
        W* __restrict x = scores + t * kColumns;
        for (int j = 0; j < kColumns; ++j) {
          x[j] = rounded_if<T>(rounds, exp_of(x[j] - from[j]));
          sum[j] += x[j];
        }
      }
      for (int j = 0; j < kColumns; ++j) sums[j] = sum[j];
    });
  });
}

#define MOESH_EXPONENTIATE(T)                                                                           \
  template void exponentiate<8, T>(Isa, bool, std::int64_t, const Wide<T>*, Wide<T>*, Wide<T>*);  \
  template void exponentiate<16, T>(Isa, bool, std::int64_t, const Wide<T>*, Wide<T>*, Wide<T>*); \
  template void exponentiate<32, T>(Isa, bool, std::int64_t, const Wide<T>*, Wide<T>*, Wide<T>*)
MOESH_EXPONENTIATE(float);
MOESH_EXPONENTIATE(bfloat16);
MOESH_EXPONENTIATE(double);
#undef MOESH_EXPONENTIATE

}  // namespace moesh::backend::cpu
