// A convolution of each channel over a token and those before it.
// Shape suffixes: B rows, S length, C channels, W tokens of a window.
#include <algorithm>
#include <cstdint>

#include "backend/cpu/kernels.h"
#include "backend/cpu/pack.h"
#include "backend/cpu/row_loop.h"
#include "backend/cpu/simd.h"
#include "backend/element.h"
#include "backend/scratch_list.h"
#include "graph/segments.h"

namespace moesh::backend::cpu {
namespace {

constexpr std::int64_t kChannelsOfTask = 256;     // of a task, where tokens add up
constexpr std::int64_t kTokensOfSum = 128;  // are added up by themselves first, so that long sums stay exact

template <typename T>
class CausalConv {
  using Sum = Wide<T>;

 public:
  explicit CausalConv(const KernelCall& call)
      : call_(call), isa_(chosen_isa()), B(call.operands[0].size(0)), S(call.operands[0].size(1)), W(call.operands[1].size(0)),
        C(call.operands[1].count() / std::max<std::int64_t>(1, W)), x_(call.operands[0].as<T>()), weights_(call.operands[1].as<T>()) {}

  void run() const {
    call_.workers.parallel(B * S, grain_of(C * W), [&](std::int64_t begin, std::int64_t end) {
      ScratchList<const T*> inputs(static_cast<std::size_t>(W));
      for (std::int64_t token = begin; token < end; ++token) {
        for (std::int64_t i = 0; i < W; ++i) {
          const std::int64_t back = W - 1 - i;
          inputs[static_cast<std::size_t>(i)] = back > token % S ? nullptr : x_ + (token - back) * C;
        }
        sum(inputs.data(), {0, C}, call_.results[0].template as<T>() + token * C);
      }
    });
  }

  // The same behind what is kept of earlier tokens.
  void run_step() const {
    const std::int64_t kept = W - 1, blocks = divide_up(C, kChannelsOfTask);
    call_.workers.parallel(B * blocks, grain_of(kChannelsOfTask * S * W), [&](std::int64_t begin, std::int64_t end) {
      ScratchList<const T*> inputs(static_cast<std::size_t>(W));
      for (std::int64_t task = begin; task < end; ++task) {
        const std::int64_t row = task / blocks, first = task % blocks * kChannelsOfTask;
        const Range channels{first, std::min(C, first + kChannelsOfTask)};
        const T* const before = call_.operands[2].template as<T>() + row * kept * C;
        for (std::int64_t i = 0; i < kept; ++i) inputs[static_cast<std::size_t>(i)] = before + i * C;
        for (std::int64_t token = row * S; token < (row + 1) * S; ++token) {
          const bool is_padding = graph::is_padding(call_.operands[4].template as<std::int32_t>()[token]);
          if (!is_padding && call_.operands[3].template as<std::int32_t>()[token] == 0) std::fill(inputs.begin(), inputs.end(), nullptr);
          inputs.back() = x_ + token * C;
          sum(inputs.data(), channels, call_.results[0].template as<T>() + token * C);
          if (!is_padding) std::move(inputs.begin() + 1, inputs.end(), inputs.begin());
        }
        for (std::int64_t i = 0; i < kept; ++i) {
          const T* const from = inputs[static_cast<std::size_t>(i)];
          T* const to = call_.results[1].template as<T>() + (row * kept + i) * C;
          if (from == nullptr) std::fill(to + channels.begin, to + channels.end, store<T>(Sum(0)));
          else std::copy(from + channels.begin, from + channels.end, to + channels.begin);
        }
      }
    });
  }

  // Weights' gradients add up over tokens, so a task has all tokens of some channels.
  void run_gradient() const {
    const T* const dy = call_.operands[2].template as<T>();
    call_.workers.parallel(divide_up(C, kChannelsOfTask), grain_of(kChannelsOfTask * B * S * W), [&](std::int64_t begin, std::int64_t end) {
      ScratchList<Sum> sums(static_cast<std::size_t>(2 * W * kChannelsOfTask));
      for (std::int64_t task = begin; task < end; ++task) {
        const Range channels{task * kChannelsOfTask, std::min(C, (task + 1) * kChannelsOfTask)};
        const std::int64_t count = channels.size();
        Sum *const all = sums.data(), *const some = all + W * count;
        std::fill_n(all, 2 * W * count, Sum(0));
        for (std::int64_t token = 0; token < B * S; ++token) {
          take_back(token, channels, dy, some);
          if ((token + 1) % kTokensOfSum != 0 && token + 1 != B * S) continue;
          vectorised(isa_, [&]() MOESH_LOOP {
            for (std::int64_t i = 0; i < W * count; ++i) {
              all[i] += some[i];
              some[i] = 0;
            }
          });
        }
        T* const dweights = call_.results[1].template as<T>();
        for (std::int64_t i = 0; i < W; ++i) {
          std::transform(all + i * count, all + (i + 1) * count, dweights + i * C + channels.begin, [](Sum x) { return store<T>(x); });
        }
      }
    });
  }

 private:
  // The weighted sum of the inputs that there are.
  void sum(const T* const* inputs, Range channels, T* to) const {
    vectorised(isa_, [&]() MOESH_LOOP {
      for (std::int64_t first = channels.begin; first < channels.end; first += kLanes) {
        const std::int64_t left = std::min(kLanes, channels.end - first);
        with_constant(left == kLanes, [&](auto is_whole) MOESH_LOOP {
          const std::int64_t count = is_whole ? kLanes : left;
          Sum sums[kLanes] = {};
          for (std::int64_t i = 0; i < W; ++i) {
            if (inputs[i] == nullptr) continue;
            const T *__restrict x = inputs[i] + first, *__restrict weights = weights_ + i * C + first;
            for (std::int64_t c = 0; c < count; ++c) sums[c] += load(x[c]) * load(weights[c]);
          }
          for (std::int64_t c = 0; c < count; ++c) to[first + c] = store<T>(sums[c]);
        });
      }
    });
  }

  // The gradient of a token's input, and what the token adds to those of the weights, [W][channels].
  void take_back(std::int64_t token, Range channels, const T* dy, Sum* dweights) const {
    const std::int64_t place = token % S, count = channels.size();
    T* __restrict dx = call_.results[0].template as<T>() + token * C + channels.begin;
    const T* __restrict own = dy + token * C + channels.begin;
    vectorised(isa_, [&]() MOESH_LOOP {
      for (std::int64_t first = 0; first < count; first += kLanes) {
        const std::int64_t left = std::min(kLanes, count - first);
        with_constant(left == kLanes, [&](auto is_whole) MOESH_LOOP {
          const std::int64_t lanes = is_whole ? kLanes : left;
          Sum sums[kLanes] = {};
          for (std::int64_t i = 0; i < W; ++i) {
            const std::int64_t ahead = W - 1 - i;
            const T* __restrict weights = weights_ + i * C + channels.begin + first;
            if (place + ahead < S) {
              const T* __restrict later = own + ahead * C + first;
              for (std::int64_t c = 0; c < lanes; ++c) sums[c] += load(later[c]) * load(weights[c]);
            }
            if (ahead > place) continue;
            const T* __restrict x = x_ + (token - ahead) * C + channels.begin + first;
            Sum* __restrict dweight = dweights + i * count + first;
            for (std::int64_t c = 0; c < lanes; ++c) dweight[c] += load(own[first + c]) * load(x[c]);
          }
          for (std::int64_t c = 0; c < lanes; ++c) dx[first + c] = store<T>(sums[c]);
        });
      }
    });
  }

  const KernelCall& call_;
  Isa isa_;
  std::int64_t B, S, W, C;
  const T* x_;
  const T* weights_;
};

}  // namespace

void causal_conv(const KernelCall& call) {
  for_floating(call.operands[0].dtype, [&]<typename T>() {
    const CausalConv<T> conv(call);
    if (call.results.size() > 1) conv.run_step();
    else conv.run();
  });
}

void causal_conv_grad(const KernelCall& call) {
  for_floating(call.operands[0].dtype, [&]<typename T>() { CausalConv<T>(call).run_gradient(); });
}

}  // namespace moesh::backend::cpu
