// Keys that are made of several tokens each.
// Shape suffixes: B rows, S tokens, R tokens that are kept, N windows, W windows of new tokens, C what a window is made of, D all dims
// behind it.
#include "graph/pooling.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "backend/cpu/kernels.h"
#include "backend/cpu/row_loop.h"
#include "backend/cpu/simd.h"
#include "backend/element.h"
#include "graph/segments.h"

namespace moesh::backend::cpu {
namespace {

constexpr std::int64_t kDims = 64;  // that are worked on side by side

// Means of the values of windows, each dim on its own.
template <typename T, typename G>
class Pooling {
  using W = Wide<T>;

 public:
  explicit Pooling(const KernelCall& call)
      : values_(call.operands[0].as<T>()),
        gates_(call.operands[1].as<G>()),
        workers_(call.workers),
        windows_(call.operands[0].size(0) * call.operands[0].size(1)),
        C(call.operands[0].size(2)),
        D(call.operands[0].count() / std::max<std::int64_t>(1, windows_ * C)) {}

  void run(T* pools) const {
    for_windows([&](std::int64_t window, std::int64_t first, std::int64_t dims) MOESH_LOOP {
      W largest[kDims], sum[kDims], mean[kDims];
      weigh(window, first, dims, largest, sum, mean);
      T* __restrict to = pools + window * D + first;
      for (std::int64_t d = 0; d < dims; ++d) to[d] = store<T>(mean[d]);
    });
  }

  void run_gradient(const T* dy, T* dvalues, G* dgates) const {
    for_windows([&](std::int64_t window, std::int64_t first, std::int64_t dims) MOESH_LOOP {
      W largest[kDims], sum[kDims], mean[kDims], slope[kDims];
      weigh(window, first, dims, largest, sum, mean);
      for (std::int64_t d = 0; d < dims; ++d) slope[d] = load(dy[window * D + first + d]) / sum[d];
      for (std::int64_t c = 0; c < C; ++c) {
        const std::int64_t at = (window * C + c) * D + first;
        for (std::int64_t d = 0; d < dims; ++d) {
          const W share = exp_of(static_cast<W>(load(gates_[at + d])) - largest[d]) * slope[d];
          dgates[at + d] = store<G>(static_cast<Wide<G>>(share * (load(values_[at + d]) - mean[d])));
          dvalues[at + d] = store<T>(share);
        }
      }
    });
  }

 private:
  // For some dims of a window: the largest gate, the sum of the exponentials relative to it, and the mean of the values.
  [[gnu::always_inline]] void weigh(std::int64_t window, std::int64_t first, std::int64_t dims, W* __restrict largest, W* __restrict sum,
                                    W* __restrict mean) const {
    const G* __restrict const gates = gates_ + window * C * D + first;
    const T* __restrict const values = values_ + window * C * D + first;
    for (std::int64_t d = 0; d < dims; ++d) {
      largest[d] = static_cast<W>(load(gates[d]));
      sum[d] = mean[d] = 0;
    }
    for (std::int64_t c = 1; c < C; ++c) {
      for (std::int64_t d = 0; d < dims; ++d) largest[d] = std::max(largest[d], static_cast<W>(load(gates[c * D + d])));
    }
    for (std::int64_t c = 0; c < C; ++c) {
      for (std::int64_t d = 0; d < dims; ++d) {
        const W exponential = exp_of(static_cast<W>(load(gates[c * D + d])) - largest[d]);
        sum[d] += exponential;
        mean[d] += exponential * load(values[c * D + d]);
      }
    }
    for (std::int64_t d = 0; d < dims; ++d) mean[d] /= sum[d];
  }

  template <typename Body>
  void for_windows(const Body& body) const {
    for_rows(workers_, windows_, 8 * C * D, [&](std::int64_t window) MOESH_LOOP {
      for (std::int64_t first = 0; first < D; first += kDims) body(window, first, std::min(kDims, D - first));
    });
  }

  const T* values_;
  const G* gates_;
  Workers& workers_;
  std::int64_t windows_, C, D;
};

// Calls body(pooling) in the types of values and gates.
template <typename Body>
void in_types(const KernelCall& call, const Body& body) {
  for_floating(call.operands[0].dtype, [&]<typename T>() {
    for_floating(call.operands[1].dtype, [&]<typename G>() { body.template operator()<T, G>(Pooling<T, G>(call)); });
  });
}

}  // namespace

void windows(const KernelCall& call) {
  const std::int64_t C = std::get<graph::WindowsOf>(call.attributes).tokens;
  const std::int64_t S = call.operands[0].size(1), N = S / C;
  const auto *positions = call.operands[0].as<std::int32_t>(), *segments = call.operands[1].as<std::int32_t>();
  call.workers.parallel(call.operands[0].size(0) * N, grain_of(C), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t window = begin; window < end; ++window) {
      const std::int64_t first = window / N * S + window % N * C;
      const std::int32_t segment = segments[first];
      const bool is_one = std::all_of(segments + first, segments + first + C, [&](std::int32_t own) { return own == segment; });
      const bool goes_on = window % N > 0 && positions[first] == positions[first - C] + C;
      call.results[0].as<std::int32_t>()[window] = positions[first];
      call.results[1].as<std::int32_t>()[window] = positions[first] + static_cast<std::int32_t>(C) - 1;
      call.results[2].as<std::int32_t>()[window] = is_one ? segment : graph::kNoSegment;
      call.results[3].as<float>()[window] = goes_on ? 1.0f : 0.0f;
    }
  });
}

void new_windows(const KernelCall& call) {
  const auto& of = std::get<graph::NewWindowsOf>(call.attributes);
  const std::int64_t S = call.operands[0].size(1), W = call.results[1].size(1);
  const auto *positions = call.operands[0].as<std::int32_t>(), *segments = call.operands[1].as<std::int32_t>();
  for (std::int64_t i = 0; i < call.operands[0].count(); ++i)
    call.results[0].as<std::int32_t>()[i] = graph::is_padding(segments[i]) ? graph::kNoSlot : positions[i];
  for (std::int64_t i = 0; i < call.results[1].count(); ++i) {
    const std::int64_t window = positions[i / W * S] / of.tokens + i % W;
    call.results[1].as<std::int32_t>()[i] = window < of.count ? static_cast<std::int32_t>(window) : graph::kNoSlot;
    call.results[2].as<std::int32_t>()[i] = static_cast<std::int32_t>(window * of.tokens);
    call.results[3].as<float>()[i] = window > 0 ? 1.0f : 0.0f;
  }
}

void window_rows(const KernelCall& call) {
  const View &kept = call.operands[0], &rows = call.operands[1], &to = call.results[0];
  const auto* positions = call.operands[2].as<std::int32_t>();
  const std::int64_t before = std::get<graph::WindowRowsOf>(call.attributes).before;
  const std::int64_t R = kept.size(1), S = rows.size(1), W = to.size(1), C = to.size(2);
  const std::int64_t tokens = kept.size(0) * W * C, bytes = tokens == 0 ? 0 : to.count() * size_of(to.dtype) / tokens;
  call.workers.parallel(tokens, grain_of(bytes), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t b = i / (W * C), first = positions[b * S], place = (first / C - before) * C + i % (W * C), ahead = place - first;
      const std::byte* from = nullptr;
      if (ahead >= 0 && ahead < S && positions[b * S + ahead] == place) from = rows.raw() + (b * S + ahead) * bytes;
      if (ahead < 0 && place >= 0) from = kept.raw() + (b * R + place % R) * bytes;
      if (from != nullptr) std::memcpy(to.raw() + i * bytes, from, static_cast<std::size_t>(bytes));
      else std::memset(to.raw() + i * bytes, 0, static_cast<std::size_t>(bytes));
    }
  });
}

void pool(const KernelCall& call) {
  in_types(call, [&]<typename T, typename G>(const Pooling<T, G>& pooling) { pooling.run(call.results[0].as<T>()); });
}

void pool_grad(const KernelCall& call) {
  in_types(call, [&]<typename T, typename G>(const Pooling<T, G>& pooling) {
    pooling.run_gradient(call.operands[2].as<T>(), call.results[0].as<T>(), call.results[1].as<G>());
  });
}

}  // namespace moesh::backend::cpu
