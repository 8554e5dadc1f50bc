// Matrix products by OpenBLAS: float32 only, one call per product.
#include <cblas.h>
#include <fmt/core.h>

#include "gemm_contestants.h"

namespace moesh::bench {
namespace {

void multiply(const Product& of) {
  const bool a_transposed = of.a.column_stride != 1;
  const bool b_transposed = of.b.column_stride != 1;
  cblas_sgemm(
      CblasRowMajor, a_transposed ? CblasTrans : CblasNoTrans, b_transposed ? CblasTrans : CblasNoTrans,
      static_cast<blasint>(of.rows), static_cast<blasint>(of.columns), static_cast<blasint>(of.depth), 1,
      static_cast<const float*>(of.a.data), static_cast<blasint>(a_transposed ? of.a.column_stride : of.a.row_stride),
      static_cast<const float*>(of.b.data), static_cast<blasint>(b_transposed ? of.b.column_stride : of.b.row_stride), 0,
      static_cast<float*>(of.c), static_cast<blasint>(of.columns));
}

Contest prepare(const Problem& problem, int threads) {
  if (problem.bfloat16) return {};
  return {[problem, threads] {
    openblas_set_num_threads(threads);
    for (const Product& product : problem.products) multiply(product);
  }};
}

}  // namespace

std::optional<Library> openblas() {
  return Library{"OpenBLAS", fmt::format("for {}", openblas_get_corename()), prepare};
}

}  // namespace moesh::bench
