#include "cost/kernel.h"

#include <algorithm>
#include <cmath>

namespace moesh::cost {
namespace {

using graph::KernelKind;
using graph::Work;

// Shares of the peak that well-tuned kernels were measured to reach, on chips of several vendors; not the figures of one machine.
constexpr double kAttention = 0.4;  // fused attention in bf16, both passes: FlashAttention-2 on an H100; version 3 reaches 1.5 times that
constexpr double kInOrder = 0.85;   // of the memory bandwidth, by copies and additions
constexpr double kTwice = 0.75;     // of kernels that read a row again, mostly from a cache
constexpr double kRows = 0.6;       // of kernels whose rows lie anywhere

// Vector units do the products of so few rows and columns that the matrix units' tiles would be nearly empty, such as those of a matrix
// and a vector in a batch. Their rate relative to that of the matrix units in bf16: about 14 of 459 TFLOP/s on TPU v5p, 67 of 989 on H100.
constexpr double kVector = 1.0 / 32;

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

double flops_per_second(const mesh::Chip& chip, DType dtype, graph::Rounded rounded) {
  const double f32 = chip.f32_rate().value_or(1e12);
  const double of_operands = dtype == DType::bfloat16 ? chip.bf16_flops_per_second.value_or(f32) : f32;
  switch (rounded) {
    case graph::Rounded::int8: return chip.int8_flops_per_second.value_or(of_operands);
    case graph::Rounded::float8: return chip.fp8_flops_per_second.value_or(of_operands);
    case graph::Rounded::none: break;
  }
  return of_operands;
}

// Results are computed in tiles of rows and columns, so both are rounded up to whole tiles; the depth is iterated over.
Reached reached_by(const Work& work, const mesh::Chip& chip) {
  const bool is_product = work.kind == KernelKind::product;
  const auto tile = static_cast<double>(chip.matrix_tile);
  const double best = work.rounded == graph::Rounded::none ? chip.bf16_reached : chip.fp8_reached;
  return {is_product ? best * tiled(work.rows, tile) * tiled(work.columns, tile) : kAttention, reached_memory(work.kind)};
}

double kernel_seconds(const Work& work, const mesh::Chip& chip) {
  const Reached reached = reached_by(work, chip);
  const double by_matrix = flops_per_second(chip, work.dtype, work.rounded) * reached.flops;
  const double by_vector = work.kind == KernelKind::product ? kVector * flops_per_second(chip, DType::bfloat16) : 0;
  const double multiplies = work.flops / std::max(by_matrix, by_vector);
  // To be quantized, operands are read for their largest value and again to be scaled; their quantized values take one byte each.
  const double rounds = work.rounded_values * static_cast<double>(2 * size_of(work.dtype) + 1) / (chip.memory_bytes_per_second * kInOrder);
  return kBetweenKernels + rounds + std::max(multiplies, work.bytes / (chip.memory_bytes_per_second * reached.bytes));
}

}  // namespace moesh::cost
