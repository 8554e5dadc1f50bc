#include "cost/kernel.h"

#include <algorithm>
#include <cmath>

namespace moesh::cost {
namespace {

using graph::KernelKind;
using graph::Work;

// What well-tuned kernels are measured at, on chips of several vendors; no machine's own figures.
constexpr double kProduct = 0.8;    // bf16 products of large matrices on an H200: 790 of 989 TFLOP/s
constexpr double kAttention = 0.6;  // fused attention in bf16: 0.5 to 0.75 of the peak as heads get wider
constexpr double kInOrder = 0.85;   // of the memory's rate, by copies and additions
constexpr double kTwice = 0.75;     // where a row is read again, mostly from a cache
constexpr double kRows = 0.6;       // where rows lie anywhere

constexpr double kBetweenKernels = 2e-6;

double tiled(double size, double tile) { return size <= 0 ? 1 : size / (std::ceil(size / tile) * tile); }

double reached_memory(KernelKind kind) {
  switch (kind) {
    case KernelKind::product:
    case KernelKind::attention:
    case KernelKind::elementwise: return kInOrder;
    case KernelKind::norm: return kTwice;
    case KernelKind::rows: return kRows;
  }
  return 1;
}

}  // namespace

double flops_per_second(const mesh::Chip& chip, DType dtype) {
  const double f32 = chip.f32_flops_per_second.value_or(1e12);
  return dtype == DType::bfloat16 ? chip.bf16_flops_per_second.value_or(f32) : f32;
}

// Results are made in tiles of rows and columns; the depth is gone through.
Reached reached_by(const Work& work, const mesh::Chip& chip) {
  const bool is_product = work.kind == KernelKind::product;
  const auto tile = static_cast<double>(chip.matrix_tile);
  return {is_product ? kProduct * tiled(work.rows, tile) * tiled(work.columns, tile) : kAttention, reached_memory(work.kind)};
}

double kernel_seconds(const Work& work, const mesh::Chip& chip) {
  const Reached reached = reached_by(work, chip);
  return kBetweenKernels + std::max(work.flops / (flops_per_second(chip, work.dtype) * reached.flops),
                                    work.bytes / (chip.memory_bytes_per_second * reached.bytes));
}

}  // namespace moesh::cost
