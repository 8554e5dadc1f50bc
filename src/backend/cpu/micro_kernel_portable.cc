// Micro-kernels in plain C++.
#include "backend/cpu/micro_kernel.h"

namespace moesh::backend::cpu {
namespace {

constexpr int kRows = 4;
constexpr int kColumns = 8;

// a_at(row, step): the offset of that element of a.
template <typename W, int rows, int columns, typename Place>
void multiply(const Block<W>& of, const Place& a_at) {
  W sum[rows][columns] = {};
  for (std::int64_t p = 0; p < of.steps; ++p) {
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < columns; ++j) sum[i][j] += of.a[a_at(i, p)] * of.b[p * of.b_pitch + j];
    }
  }
  for (int i = 0; i < rows; ++i) {
    W* c = of.c + i * of.c_pitch;
    for (int j = 0; j < columns; ++j) c[j] = of.add ? c[j] + sum[i][j] : sum[i][j];
  }
}

template <typename W, int rows, int columns>
void multiply_block(const Block<W>& of) {
  multiply<W, rows, columns>(of, [](std::int64_t row, std::int64_t step) { return step * kRows + row; });
}
template <typename W>
void multiply_panels(const Block<W>& of) {
  multiply<W, kRows, kColumns>(of, [](std::int64_t row, std::int64_t step) {
    return (step / kColumns * kRows + row) * kColumns + step % kColumns;
  });
}

}  // namespace

template <typename P>
const MicroKernels<P>& portable_kernels() {
  static const MicroKernels<P> kernels{
      .chunk = 256,
      .rows = kRows,
      .columns = kColumns,
      .row_room = kRows,
      .whole = {multiply_block<P, 1, 8>, multiply_block<P, 2, 8>, multiply_block<P, 3, 8>, multiply_block<P, 4, 8>},
      .narrow = {multiply_block<P, 1, 4>, multiply_block<P, 2, 4>, multiply_block<P, 3, 4>, multiply_block<P, 4, 4>},
      .of_panels = multiply_panels<P>,
  };
  return kernels;
}

template const MicroKernels<float>& portable_kernels();
template const MicroKernels<double>& portable_kernels();

}  // namespace moesh::backend::cpu
