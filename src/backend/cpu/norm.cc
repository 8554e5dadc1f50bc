// Softmax and RMS normalisation over the last dim. For RMS normalisation it may be sharded over devices: row_dot has then computed the
// sums.
#include <algorithm>

#include "backend/cpu/kernels.h"
#include "backend/cpu/micro_kernel.h"
#include "backend/cpu/norm_avx512_bf16.h"
#include "backend/cpu/row_loop.h"
#include "backend/cpu/simd.h"
#include "backend/cpu/workspace.h"
#include "backend/scratch_list.h"
#include "base/rounding.h"

namespace moesh::backend::cpu {
namespace {

// A buffer as rows of its last dim.
struct Rows {
  std::int64_t count;
  std::int64_t width;
};

Rows rows_of(const View& view) {
  const std::int64_t width = view.shape.empty() ? 1 : view.shape.back();
  return {width == 0 ? 0 : view.count() / width, width};
}

template <typename T>
void softmax_of(const KernelCall& call) {
  using W = Wide<T>;
  const Rows rows = rows_of(call.results[0]);
  for_rows(call.workers, rows.count, rows.width, [&](std::int64_t row) MOESH_LOOP {
    const T* __restrict x = call.operands[0].as<T>() + row * rows.width;
    T* __restrict y = call.results[0].as<T>() + row * rows.width;
    const W largest = largest_of<W>(rows.width, [&](std::int64_t i) MOESH_LOOP { return load(x[i]); });
    const W sum = sum_of<W>(rows.width, [&](std::int64_t i) MOESH_LOOP { return exp_of(load(x[i]) - largest); });
    for (std::int64_t i = 0; i < rows.width; ++i) y[i] = store<T>(exp_of(load(x[i]) - largest) / sum);
  });
}

template <typename T>
void softmax_grad_of(const KernelCall& call) {
  using W = Wide<T>;
  const Rows rows = rows_of(call.results[0]);
  for_rows(call.workers, rows.count, rows.width, [&](std::int64_t row) MOESH_LOOP {
    const T* __restrict y = call.operands[0].as<T>() + row * rows.width;
    const T* __restrict dy = call.operands[1].as<T>() + row * rows.width;
    T* __restrict dx = call.results[0].as<T>() + row * rows.width;
    const W sum = sum_of<W>(rows.width, [&](std::int64_t i) MOESH_LOOP { return load(y[i]) * load(dy[i]); });
    for (std::int64_t i = 0; i < rows.width; ++i) dx[i] = store<T>(load(y[i]) * (load(dy[i]) - sum));
  });
}

// The inverse of a row's root mean square, from the sum of squares of the whole row.
template <typename W>
struct InverseRms {
  W width, epsilon;

  explicit InverseRms(const KernelCall& call) {
    const auto& of = std::get<graph::RmsNormOf>(call.attributes);
    width = static_cast<W>(of.width > 0 ? of.width : rows_of(call.results[0]).width);
    epsilon = static_cast<W>(of.epsilon);
  }
  W of(W squares) const { return W(1) / std::sqrt(squares / width + epsilon); }
};

template <typename T>
[[gnu::always_inline]] inline Wide<T> squares_of(const T* __restrict x, std::int64_t width) {
  return sum_of<Wide<T>>(width, [&](std::int64_t i) MOESH_LOOP { return load(x[i]) * load(x[i]); });
}

// Whether rows of this type go through the functions of norm_avx512_bf16.h.
#if defined(__x86_64__)
template <typename T>
constexpr bool kMayRound = std::is_same_v<T, bfloat16>;
#else
template <typename T>
constexpr bool kMayRound = false;
#endif

template <typename T, bool of_dots>
void rms_norm_of(const KernelCall& call) {
  using W = Wide<T>;
  [[maybe_unused]] const bool is_rounded = packs_bfloat16(chosen_isa());
  const Rows rows = rows_of(call.results[0]);
  const InverseRms<W> inverse_rms(call);
  const T* __restrict scale = call.operands[1].as<T>();
  for_rows(call.workers, rows.count, rows.width, [&](std::int64_t row) MOESH_LOOP {
    const T* __restrict x = call.operands[0].as<T>() + row * rows.width;
    T* __restrict y = call.results[0].as<T>() + row * rows.width;
    W squares = 0;
    if constexpr (of_dots) squares = call.operands[2].as<W>()[row];
    else squares = squares_of(x, rows.width);
    const W inverse = inverse_rms.of(squares);
    if constexpr (kMayRound<T>) {
      if (is_rounded) return rms_norm_row_avx512_bf16(x, inverse, scale, rows.width, y);
    }
    for (std::int64_t i = 0; i < rows.width; ++i) y[i] = store<T>(rounded<T>(load(x[i]) * inverse) * load(scale[i]));
  });
}

// With n = x / rms(x): dx = (dn - n mean(n dn)) / rms(x), where dn = dy scale; dscale sums dy n over the rows. dx is added to `sum`, if
// there is one, and may be in its place.
template <typename T, bool adds>
[[gnu::always_inline]] inline void rms_norm_grad_row(const T* __restrict x, const T* __restrict scale, const T* __restrict dy,
                                                     const T* sum, T* dx, Wide<T>* __restrict dscale, std::int64_t width,
                                                     Wide<T> inverse, Wide<T> mean) {
  using W = Wide<T>;
  MOESH_BY_ELEMENT
  for (std::int64_t i = 0; i < width; ++i) {
    const W n = load(x[i]) * inverse, gradient = inverse * (load(dy[i]) * load(scale[i]) - n * mean);
    dx[i] = store<T>(adds ? load(sum[i]) + gradient : gradient);
    dscale[i] += load(dy[i]) * rounded<T>(n);
  }
}

constexpr std::int64_t kBlock = 64;  // rows per block: scale gradients are summed within blocks first, then over blocks

template <typename T, bool of_dots>
void rms_norm_grad_of(const KernelCall& call) {
  using W = Wide<T>;
  constexpr std::size_t kOperands = of_dots ? 5 : 3;
  const Rows rows = rows_of(call.results[0]);
  const InverseRms<W> inverse_rms(call);
  const Isa isa = chosen_isa();
  [[maybe_unused]] const bool is_rounded = packs_bfloat16(isa);
  const std::int64_t blocks = divide_up(rows.count, kBlock);
  ScratchList<W> partial(static_cast<std::size_t>(blocks * rows.width));
  call.workers.parallel(rows.count, kBlock, [&](std::int64_t begin, std::int64_t end) {
    W* dscale = partial.data() + begin / kBlock * rows.width;
    for (std::int64_t row = begin; row < end; ++row) {
      const auto row_of = [&](const View& values) { return values.as<T>() + row * rows.width; };
      with_constant(call.operands.size() > kOperands, [&](auto adds) {
        const T* const sum = adds ? row_of(call.operands[kOperands]) : nullptr;
        vectorised(isa, [&]() MOESH_LOOP {
          const T *x = row_of(call.operands[0]), *scale = call.operands[1].as<T>(), *dy = row_of(call.operands[2]);
          W inverse = 0, products = 0;  // sum of the products of n and dn
          if constexpr (of_dots) {
            inverse = inverse_rms.of(call.operands[3].as<W>()[row]);
            products = inverse * call.operands[4].as<W>()[row];
          } else {
            inverse = inverse_rms.of(squares_of(x, rows.width));
            products = sum_of<W>(rows.width, [&](std::int64_t i) MOESH_LOOP {
              return load(x[i]) * inverse * (load(dy[i]) * load(scale[i]));
            });
          }
          const W mean = products / inverse_rms.width;
          T* const dx = row_of(call.results[0]);
          if constexpr (kMayRound<T>) {
            if (is_rounded) return rms_norm_grad_row_avx512_bf16({x, scale, dy, sum, dx, dscale, rows.width, inverse, mean});
          }
          rms_norm_grad_row<T, adds>(x, scale, dy, sum, dx, dscale, rows.width, inverse, mean);
        });
      });
    }
  });
  T* dscale = call.results[1].as<T>();
  call.workers.parallel(rows.width, grain_of(blocks), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      double sum = 0;
      for (std::int64_t block = 0; block < blocks; ++block) sum += partial[static_cast<std::size_t>(block * rows.width + i)];
      dscale[i] = store<T>(sum);
    }
  });
}

template <typename T>
void row_dot_of(const KernelCall& call) {
  using W = Wide<T>;
  const Rows rows = rows_of(call.operands[0]);
  W* const to = call.results[0].as<W>();
  for_rows(call.workers, rows.count, rows.width, [&](std::int64_t row) MOESH_LOOP {
    const T* __restrict x = call.operands[0].as<T>() + row * rows.width;
    const T* __restrict y = call.operands[1].as<T>() + row * rows.width;
    if (call.operands.size() < 3) {
      to[row] = sum_of<W>(rows.width, [&](std::int64_t i) MOESH_LOOP { return load(x[i]) * load(y[i]); });
    } else {
      const T* __restrict scale = call.operands[2].as<T>();
      to[row] = sum_of<W>(rows.width, [&](std::int64_t i) MOESH_LOOP { return load(x[i]) * (load(y[i]) * load(scale[i])); });
    }
  });
}

}  // namespace

void softmax(const KernelCall& call) {
  for_floating(call.results[0].dtype, [&]<typename T>() { softmax_of<T>(call); });
}

void softmax_grad(const KernelCall& call) {
  for_floating(call.results[0].dtype, [&]<typename T>() { softmax_grad_of<T>(call); });
}

void rms_norm(const KernelCall& call) {
  for_floating(call.results[0].dtype, [&]<typename T>() { rms_norm_of<T, false>(call); });
}

void rms_norm_of_dots(const KernelCall& call) {
  for_floating(call.results[0].dtype, [&]<typename T>() { rms_norm_of<T, true>(call); });
}

void row_dot(const KernelCall& call) {
  for_floating(call.operands[0].dtype, [&]<typename T>() { row_dot_of<T>(call); });
}

std::int64_t rms_norm_grad_bytes(const Shape& x) {
  const std::int64_t rows = elements(x) / std::max<std::int64_t>(1, x.back());
  return divide_up(rows, kBlock) * x.back() * size_of(DType::float32);
}

void rms_norm_grad(const KernelCall& call) {
  for_floating(call.results[0].dtype, [&]<typename T>() { rms_norm_grad_of<T, false>(call); });
}

void rms_norm_grad_of_dots(const KernelCall& call) {
  for_floating(call.results[0].dtype, [&]<typename T>() { rms_norm_grad_of<T, true>(call); });
}

}  // namespace moesh::backend::cpu
