// Keys that are made of several tokens each.
// Shape suffixes: B rows, S tokens, R tokens that are kept, N windows, W windows of new tokens, C what a window is made of, D all dims
// behind it.
#include "graph/pooling.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "backend/element.h"
#include "backend/reference/kernels.h"
#include "graph/segments.h"

namespace moesh::backend::reference {
namespace {

void windows(const KernelCall& call) {
  const std::int64_t C = std::get<graph::WindowsOf>(call.attributes).tokens;
  const std::int64_t B = call.operands[0].size(0), S = call.operands[0].size(1), N = S / C;
  const auto operand = [&](std::size_t i, std::int64_t token) { return call.operands[i].as<std::int32_t>()[token]; };
  const auto result = [&](std::size_t i) { return call.results[i].as<std::int32_t>(); };
  for (std::int64_t b = 0; b < B; ++b) {
    for (std::int64_t n = 0; n < N; ++n) {
      const std::int64_t window = b * N + n, first = b * S + n * C;
      result(0)[window] = operand(0, first);
      result(1)[window] = operand(0, first) + static_cast<std::int32_t>(C) - 1;
      result(2)[window] = operand(1, first);
      for (std::int64_t c = 1; c < C; ++c) {
        if (operand(1, first + c) != operand(1, first)) result(2)[window] = graph::kNoSegment;
      }
      const bool goes_on = n > 0 && operand(0, first) == operand(0, first - C) + C;
      call.results[3].as<float>()[window] = goes_on ? 1.0f : 0.0f;
    }
  }
}

void new_windows(const KernelCall& call) {
  const auto& of = std::get<graph::NewWindowsOf>(call.attributes);
  const std::int64_t B = call.operands[0].size(0), S = call.operands[0].size(1), W = call.results[1].size(1);
  const auto operand = [&](std::size_t i, std::int64_t token) { return call.operands[i].as<std::int32_t>()[token]; };
  const auto result = [&](std::size_t i) { return call.results[i].as<std::int32_t>(); };
  for (std::int64_t b = 0; b < B; ++b) {
    for (std::int64_t token = b * S; token < (b + 1) * S; ++token)
      result(0)[token] = graph::is_padding(operand(1, token)) ? graph::kNoSlot : operand(0, token);
    auto window = static_cast<std::int32_t>(operand(0, b * S) / of.tokens);
    for (std::int64_t w = b * W; w < (b + 1) * W; ++w, ++window) {
      result(1)[w] = window < of.count ? window : graph::kNoSlot;
      result(2)[w] = window * static_cast<std::int32_t>(of.tokens);
      call.results[3].as<float>()[w] = window > 0 ? 1.0f : 0.0f;
    }
  }
}

void window_rows(const KernelCall& call) {
  const View &kept = call.operands[0], &rows = call.operands[1], &to = call.results[0];
  const std::int64_t before = std::get<graph::WindowRowsOf>(call.attributes).before;
  const std::int64_t B = kept.size(0), R = kept.size(1), S = rows.size(1), W = to.size(1), C = to.size(2);
  const std::int64_t bytes = to.count() * size_of(to.dtype) / std::max<std::int64_t>(1, B * W * C);
  std::memset(to.data, 0, static_cast<std::size_t>(B * W * C * bytes));
  for (std::int64_t b = 0; b < B; ++b) {
    const std::int32_t* const positions = call.operands[2].as<std::int32_t>() + b * S;
    for (std::int64_t i = 0; i < W * C; ++i) {
      const std::int64_t place = (positions[0] / C - before) * C + i;
      const auto take = [&](const View& from, std::int64_t token) {
        std::memcpy(to.raw() + (b * W * C + i) * bytes, from.raw() + token * bytes, static_cast<std::size_t>(bytes));
      };
      if (place >= 0 && place < positions[0]) take(kept, b * R + place % R);
      for (std::int64_t s = 0; s < S; ++s) {
        if (positions[s] == place && place == positions[0] + s) take(rows, b * S + s);
      }
    }
  }
}

// The places of the first value of a pool, and the step from one of its values to the next.
struct Places {
  std::int64_t windows, C, D;

  explicit Places(const View& values)
      : windows(values.size(0) * values.size(1)), C(values.size(2)), D(values.count() / std::max<std::int64_t>(1, windows * C)) {}
  std::int64_t of_value(std::int64_t window, std::int64_t c, std::int64_t d) const { return (window * C + c) * D + d; }
};

template <typename W, typename G>
std::vector<W> shares_of(const G* gates, const Places& at, std::int64_t window, std::int64_t d) {
  std::vector<W> shares;
  for (std::int64_t c = 0; c < at.C; ++c) shares.push_back(static_cast<W>(load(gates[at.of_value(window, c, d)])));
  const W largest = *std::max_element(shares.begin(), shares.end());
  W sum = 0;
  for (W& share : shares) sum += share = std::exp(share - largest);
  for (W& share : shares) share /= sum;
  return shares;
}

// Calls body<T, G>(values, gates) in the types of both.
template <typename Body>
void in_types(const KernelCall& call, const Body& body) {
  for_floating(call.operands[0].dtype, [&]<typename T>() {
    for_floating(call.operands[1].dtype, [&]<typename G>() { body(call.operands[0].as<T>(), call.operands[1].as<G>()); });
  });
}

void pool(const KernelCall& call) {
  const Places at(call.operands[0]);
  in_types(call, [&]<typename T, typename G>(const T* values, const G* gates) {
    for (std::int64_t window = 0; window < at.windows; ++window) {
      for (std::int64_t d = 0; d < at.D; ++d) {
        const std::vector<Wide<T>> shares = shares_of<Wide<T>>(gates, at, window, d);
        Wide<T> sum = 0;
        for (std::int64_t c = 0; c < at.C; ++c) sum += shares[static_cast<std::size_t>(c)] * load(values[at.of_value(window, c, d)]);
        call.results[0].as<T>()[window * at.D + d] = store<T>(sum);
      }
    }
  });
}

void pool_grad(const KernelCall& call) {
  const Places at(call.operands[0]);
  in_types(call, [&]<typename T, typename G>(const T* values, const G* gates) {
    for (std::int64_t window = 0; window < at.windows; ++window) {
      for (std::int64_t d = 0; d < at.D; ++d) {
        const std::vector<Wide<T>> shares = shares_of<Wide<T>>(gates, at, window, d);
        const Wide<T> dy = load(call.operands[2].as<T>()[window * at.D + d]);
        Wide<T> mean = 0;
        for (std::int64_t c = 0; c < at.C; ++c) mean += shares[static_cast<std::size_t>(c)] * load(values[at.of_value(window, c, d)]);
        for (std::int64_t c = 0; c < at.C; ++c) {
          const std::int64_t place = at.of_value(window, c, d);
          const Wide<T> slope = shares[static_cast<std::size_t>(c)] * dy;
          call.results[0].as<T>()[place] = store<T>(slope);
          call.results[1].as<G>()[place] = store<G>(static_cast<Wide<G>>(slope * (load(values[place]) - mean)));
        }
      }
    }
  });
}

}  // namespace

Kernel find_pooling(graph::Op op) {
  switch (op) {
    case graph::Op::windows: return windows;
    case graph::Op::new_windows: return new_windows;
    case graph::Op::window_rows: return window_rows;
    case graph::Op::pool: return pool;
    case graph::Op::pool_grad: return pool_grad;
    default: return nullptr;
  }
}

}  // namespace moesh::backend::reference
