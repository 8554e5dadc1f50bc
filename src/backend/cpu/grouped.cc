// Grouped GEMM: the products of the experts on rows that are sorted by expert, with their biases and sums.
// Shape suffixes: R rows, K depth, E experts, N width.
#include <algorithm>
#include <cassert>
#include <cstring>
#include <vector>

#include "backend/cpu/added_to.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/row_loop.h"
#include "backend/cpu/simd.h"
#include "base/rounding.h"

namespace moesh::backend::cpu {
namespace {

// Where each expert's rows begin, and where the last one's end.
OffsetList begins_of(const View& sizes_E) {
  ScratchList<std::int64_t> begins{0};
  for (std::int64_t e = 0; e < sizes_E.count(); ++e) begins.push_back(begins.back() + sizes_E.as<std::int32_t>()[e]);
  return begins;
}

template <typename T, typename R>
void grouped_matmul_of(const KernelCall& call) {
  const View& rows_RK = call.operands[0];
  const View& out_RN = call.results[0];
  const std::int64_t depth = rows_RK.size(1);
  const std::int64_t width = out_RN.size(1);
  const bool transpose = std::get<graph::GroupedMatmulOf>(call.attributes).transpose;
  const OffsetList begins = begins_of(call.operands[2]);
  const std::int64_t experts = call.operands[2].count();
  const OffsetList one_place = steps(experts, 0);
  const OffsetList weights = steps(experts, depth * width);
  const OffsetList in_rows = steps(begins.back(), depth), out_rows = steps(begins.back(), width);
  const OffsetList depth_of_rows = steps(depth, 1), columns = steps(width, 1);
  const bool adds = starts_from_operand(call, 3);
  const OffsetList b_rows = steps(depth, transpose ? 1 : width), b_columns = steps(width, transpose ? depth : 1);
  multiply<T, T, R>(&call.workers, chosen_isa(), {rows_RK.as<const T>(), one_place, in_rows, depth_of_rows},
                    {call.operands[1].as<const T>(), weights, b_rows, b_columns},
                    {out_RN.as<R>(), one_place, out_rows, columns}, {.add = adds, .row_begins = begins});
  if (!adds) std::fill(out_RN.as<R>() + begins.back() * width, out_RN.as<R>() + out_RN.count(), store<R>(0.0f));
}

template <typename T, typename R>
void grouped_outer_of(const KernelCall& call) {
  const View& out_EKN = call.results[0];
  const std::int64_t experts = out_EKN.size(0), height = out_EKN.size(1), width = out_EKN.size(2);
  const OffsetList begins = begins_of(call.operands[2]);
  const OffsetList one_place = steps(experts, 0);
  const OffsetList out = steps(experts, height * width);
  const OffsetList a_depth = steps(begins.back(), height), b_depth = steps(begins.back(), width);
  const OffsetList rows = steps(height, 1), out_rows = steps(height, width), columns = steps(width, 1);
  multiply<T, T, R>(&call.workers, chosen_isa(), {call.operands[0].as<const T>(), one_place, rows, a_depth},
                    {call.operands[1].as<const T>(), one_place, b_depth, columns},
                    {out_EKN.as<R>(), out, out_rows, columns}, {.depth_begins = begins});
}

template <typename T>
void grouped_bias_of(const KernelCall& call) {
  const View& out_RN = call.results[0];
  const std::int64_t width = out_RN.size(1);
  const OffsetList begins = begins_of(call.operands[2]);
  ScratchList<std::int64_t> expert_of_row;
  for (std::size_t e = 0; e + 1 < begins.size(); ++e) {
    expert_of_row.resize(static_cast<std::size_t>(begins[e + 1]), static_cast<std::int64_t>(e));
  }
  for_rows(call.workers, out_RN.size(0), width, [&](std::int64_t row) MOESH_LOOP {
    const T* __restrict from = call.operands[0].as<T>() + row * width;
    T* __restrict to = out_RN.as<T>() + row * width;
    if (row >= begins.back()) {
      std::copy_n(from, width, to);
    } else {
      const T* __restrict bias = call.operands[1].as<T>() + expert_of_row[static_cast<std::size_t>(row)] * width;
      for (std::int64_t j = 0; j < width; ++j) to[j] = store<T>(load(from[j]) + load(bias[j]));
    }
  });
}

template <typename T>
void grouped_sum_of(const KernelCall& call) {
  constexpr std::int64_t kPiece = 256;
  const View& out_EN = call.results[0];
  const std::int64_t width = out_EN.size(1);
  const OffsetList begins = begins_of(call.operands[1]);
  const std::int64_t pieces = divide_up(width, kPiece);
  for_rows(call.workers, out_EN.size(0) * pieces, kGrain, [&](std::int64_t task) MOESH_LOOP {
    const std::int64_t e = task / pieces;
    const std::int64_t first = task % pieces * kPiece;
    const std::int64_t count = std::min(kPiece, width - first);
    double sum[kPiece] = {};
    for (std::int64_t row = begins[static_cast<std::size_t>(e)]; row < begins[static_cast<std::size_t>(e) + 1]; ++row) {
      const T* __restrict from = call.operands[0].as<T>() + row * width + first;
      for (std::int64_t j = 0; j < count; ++j) sum[j] += static_cast<double>(load(from[j]));
    }
    T* __restrict to = out_EN.as<T>() + e * width + first;
    for (std::int64_t j = 0; j < count; ++j) to[j] = store<T>(sum[j]);
  });
}

}  // namespace

void grouped_matmul(const KernelCall& call) {
  with_product_types(call.operands[0].dtype, call.results[0].dtype, [&]<typename T, typename R>() { grouped_matmul_of<T, R>(call); });
}

void grouped_outer(const KernelCall& call) {
  with_product_types(call.operands[0].dtype, call.results[0].dtype, [&]<typename T, typename R>() { grouped_outer_of<T, R>(call); });
}

void grouped_bias(const KernelCall& call) {
  for_floating(call.results[0].dtype, [&]<typename T>() { grouped_bias_of<T>(call); });
}

void grouped_sum(const KernelCall& call) {
  for_floating(call.results[0].dtype, [&]<typename T>() { grouped_sum_of<T>(call); });
}

}  // namespace moesh::backend::cpu
