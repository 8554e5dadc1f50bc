// Micro kernels in plain C++.
#include "backend/cpu/micro_kernel.h"

namespace moesh::backend::cpu {
namespace {

constexpr int kRows = 4;
constexpr int kColumns = 8;

template <typename W, int rows, int columns>
void tile(std::int64_t depth, const W* __restrict a, const W* __restrict b, W* __restrict c, std::int64_t c_pitch,
          bool add) {
  W sum[rows][columns] = {};
  for (std::int64_t p = 0; p < depth; ++p) {
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < columns; ++j) sum[i][j] += a[p * kRows + i] * b[p * kColumns + j];
    }
  }
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < columns; ++j) c[i * c_pitch + j] = add ? c[i * c_pitch + j] + sum[i][j] : sum[i][j];
  }
}

}  // namespace

template <typename W>
const MicroKernels<W>& portable_kernels() {
  static const MicroKernels<W> kernels{
      kRows,
      kColumns,
      {tile<W, 1, 8>, tile<W, 2, 8>, tile<W, 3, 8>, tile<W, 4, 8>},
      {tile<W, 1, 4>, tile<W, 2, 4>, tile<W, 3, 4>, tile<W, 4, 4>},
  };
  return kernels;
}

template const MicroKernels<float>& portable_kernels();
template const MicroKernels<double>& portable_kernels();

}  // namespace moesh::backend::cpu
