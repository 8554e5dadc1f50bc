#include "backend/cpu/column_softmax.h"

namespace moesh::backend::cpu {

template <int kColumns, typename W>
void exponentiate(Isa isa, std::int64_t rows, const W* base, W* scores, W* sums) {
  vectorised(isa, [&]() MOESH_LOOP {
    W from[kColumns], sum[kColumns];
    for (int j = 0; j < kColumns; ++j) from[j] = base[j];
    for (int j = 0; j < kColumns; ++j) sum[j] = sums[j];
    for (std::int64_t row = 0; row < rows; ++row) {
      W* __restrict x = scores + row * kColumns;
      for (int j = 0; j < kColumns; ++j) {
        x[j] = exp_of(x[j] - from[j]);
        sum[j] += x[j];
      }
    }
    for (int j = 0; j < kColumns; ++j) sums[j] = sum[j];
  });
}

#define MOESH_EXPONENTIATE(W)                                                             \
  template void exponentiate<8, W>(Isa, std::int64_t, const W*, W*, W*);  \
  template void exponentiate<16, W>(Isa, std::int64_t, const W*, W*, W*); \
  template void exponentiate<32, W>(Isa, std::int64_t, const W*, W*, W*)
MOESH_EXPONENTIATE(float);
MOESH_EXPONENTIATE(double);
#undef MOESH_EXPONENTIATE

}  // namespace moesh::backend::cpu
