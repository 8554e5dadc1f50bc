// Attention, one query at a time. Shape suffixes: B rows, S queries, T keys, H heads, G key/value heads, D head dim.
#include <cmath>
#include <vector>

#include "backend/element.h"
#include "backend/chosen_keys.h"
#include "backend/reference/kernels.h"

namespace moesh::backend::reference {
namespace {

// The operands by name. Order and segments are given once, or separately for queries and for keys.
struct Operands {
  const graph::AttentionOf& of;
  View query, key, value, q_order, q_segments, k_order, k_segments, chosen, sinks;
  bool has_sinks;
  std::int64_t B, S, T, H, G, D, V;

  Operands(const KernelCall& call, std::size_t count) : of(std::get<graph::AttentionOf>(call.attributes)) {
    const auto& o = call.operands;
    query = o[0];
    key = o[1];
    value = o[2];
    q_order = o[3];
    q_segments = o[4];
    const std::size_t others = count - (of.is_sparse ? 1 : 0);
    const bool separate = others >= 7;
    k_order = separate ? o[5] : o[3];
    k_segments = separate ? o[6] : o[4];
    if (of.is_sparse) chosen = o[separate ? 7 : 5];
    has_sinks = others == 6 || others == 8;
    if (has_sinks) sinks = o[count - 1];
    B = query.shape[0];
    S = query.shape[1];
    H = query.shape[2];
    D = query.shape[3];
    T = key.shape[1];
    G = key.shape[2];
    V = value.shape[3];
  }

  bool sees(std::int64_t b, std::int64_t s, std::int64_t t) const {
    const std::int32_t q = q_order.as<std::int32_t>()[b * S + s];
    const std::int32_t k = k_order.as<std::int32_t>()[b * T + t];
    const bool same = q_segments.as<std::int32_t>()[b * S + s] == k_segments.as<std::int32_t>()[b * T + t];
    const std::int64_t first_pool = of.pools > 0 ? T - of.pools : 0;
    const bool is_pool = of.pools > 0 && t >= first_pool;
    if (is_pool && of.tokens_of_pool > 0 && (t - first_pool + 1) * of.tokens_of_pool - 1 > q) return false;
    const bool in_reach = is_pool || ((of.window == 0 || q - k < of.window) && (of.chunk == 0 || q / of.chunk == k / of.chunk));
    const bool may_be_left_out = of.is_sparse && t >= first_pool;
    return same && q >= k && in_reach && (!may_be_left_out || ChosenKeys(chosen).has(b * S + s, t - first_pool));
  }
};

// One query's scores after the soft cap, and its probabilities.
template <typename T>
struct Row {
  using W = Wide<T>;
  std::vector<W> scores, probabilities;
  W largest = 0;  // of the scores and the sink
  W sink_probability = 0;

  void compute(const Operands& o, std::int64_t b, std::int64_t s, std::int64_t h) {
    const std::int64_t g = h / (o.H / o.G);
    const T* q = o.query.as<T>() + ((b * o.S + s) * o.H + h) * o.D;
    scores.assign(static_cast<std::size_t>(o.T), 0);
    probabilities.assign(static_cast<std::size_t>(o.T), 0);
    largest = o.has_sinks ? load(o.sinks.as<T>()[h]) : -std::numeric_limits<W>::infinity();
    for (std::int64_t t = 0; t < o.T; ++t) {
      if (!o.sees(b, s, t)) continue;
      const T* k = o.key.as<T>() + ((b * o.T + t) * o.G + g) * o.D;
      W dot = 0;
      for (std::int64_t d = 0; d < o.D; ++d) dot += load(q[d]) * load(k[d]);
      dot *= static_cast<W>(o.of.score_scale);
      const auto cap = static_cast<W>(o.of.soft_cap);
      scores[static_cast<std::size_t>(t)] = cap > 0 ? cap * std::tanh(dot / cap) : dot;
      largest = std::max(largest, scores[static_cast<std::size_t>(t)]);
    }
    W sum = o.has_sinks ? std::exp(load(o.sinks.as<T>()[h]) - largest) : W(0);
    sink_probability = sum;
    for (std::int64_t t = 0; t < o.T; ++t) {
      if (!o.sees(b, s, t)) continue;
      const auto at = static_cast<std::size_t>(t);
      probabilities[at] = std::exp(scores[at] - largest);
      sum += probabilities[at];
    }
    if (sum == 0) return;  // the query sees nothing, and gets nothing
    for (W& p : probabilities) p /= sum;
    sink_probability /= sum;
  }
};

void attention(const KernelCall& call) {
  const Operands o(call, call.operands.size());
  for_floating(o.query.dtype, [&]<typename T>() {
    call.workers.parallel(o.B * o.H, 1, [&](std::int64_t begin, std::int64_t end) {
      Row<T> row;
      for (std::int64_t bh = begin; bh < end; ++bh) {
        const std::int64_t b = bh / o.H;
        const std::int64_t h = bh % o.H;
        const std::int64_t g = h / (o.H / o.G);
        for (std::int64_t s = 0; s < o.S; ++s) {
          row.compute(o, b, s, h);
          if (call.results.size() > 1) call.results[1].as<float>()[(b * o.S + s) * o.H + h] = static_cast<float>(row.largest);
          for (std::int64_t v = 0; v < o.V; ++v) {
            Wide<T> sum = 0;
            for (std::int64_t t = 0; t < o.T; ++t) {
              sum += row.probabilities[static_cast<std::size_t>(t)] * load(o.value.as<T>()[((b * o.T + t) * o.G + g) * o.V + v]);
            }
            call.results[0].as<T>()[((b * o.S + s) * o.H + h) * o.V + v] = store<T>(sum);
          }
        }
      }
    });
  });
}

// The gradients of one row of the batch. They are accumulated in the wide type, the heads of a group one after the other, then stored.
template <typename T>
void row_grad(const KernelCall& call, const Operands& o, std::int64_t b, std::vector<double>& dsinks) {
  using W = Wide<T>;
  const View& dy = call.operands.back();
  std::vector<W> dq(static_cast<std::size_t>(o.S * o.H * o.D), 0);
  std::vector<W> dk(static_cast<std::size_t>(o.T * o.G * o.D), 0);
  std::vector<W> dv(static_cast<std::size_t>(o.T * o.G * o.V), 0);
  Row<T> row;
  std::vector<W> dp(static_cast<std::size_t>(o.T));
  for (std::int64_t h = 0; h < o.H; ++h) {
    const std::int64_t g = h / (o.H / o.G);
    for (std::int64_t s = 0; s < o.S; ++s) {
      row.compute(o, b, s, h);
      const T* d = dy.as<T>() + ((b * o.S + s) * o.H + h) * o.V;
      W total = 0;
      for (std::int64_t t = 0; t < o.T; ++t) {
        const auto at = static_cast<std::size_t>(t);
        dp[at] = 0;
        if (row.probabilities[at] == 0) continue;
        for (std::int64_t v = 0; v < o.V; ++v) {
          dp[at] += load(d[v]) * load(o.value.as<T>()[((b * o.T + t) * o.G + g) * o.V + v]);
          dv[static_cast<std::size_t>((t * o.G + g) * o.V + v)] += row.probabilities[at] * load(d[v]);
        }
        total += dp[at] * row.probabilities[at];
      }
      if (o.has_sinks) dsinks[static_cast<std::size_t>(h)] -= static_cast<double>(row.sink_probability * total);
      for (std::int64_t t = 0; t < o.T; ++t) {
        const auto at = static_cast<std::size_t>(t);
        if (row.probabilities[at] == 0) continue;
        W ds = row.probabilities[at] * (dp[at] - total) * static_cast<W>(o.of.score_scale);
        const auto cap = static_cast<W>(o.of.soft_cap);
        if (cap > 0) ds *= 1 - row.scores[at] / cap * row.scores[at] / cap;
        for (std::int64_t i = 0; i < o.D; ++i) {
          dq[static_cast<std::size_t>((s * o.H + h) * o.D + i)] += ds * load(o.key.as<T>()[((b * o.T + t) * o.G + g) * o.D + i]);
          dk[static_cast<std::size_t>((t * o.G + g) * o.D + i)] += ds * load(o.query.as<T>()[((b * o.S + s) * o.H + h) * o.D + i]);
        }
      }
    }
  }
  const auto put = [&](const View& to, const std::vector<W>& from) {
    T* out = to.as<T>() + b * static_cast<std::int64_t>(from.size());
    for (std::size_t i = 0; i < from.size(); ++i) out[i] = store<T>(from[i]);
  };
  put(call.results[0], dq);
  put(call.results[1], dk);
  put(call.results[2], dv);
}

void attention_grad(const KernelCall& call) {
  const Operands o(call, call.operands.size() - 1);
  for_floating(o.query.dtype, [&]<typename T>() {
    std::vector<std::vector<double>> dsinks(static_cast<std::size_t>(o.B),
                                            std::vector<double>(static_cast<std::size_t>(o.H), 0));
    call.workers.parallel(o.B, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) row_grad<T>(call, o, b, dsinks[static_cast<std::size_t>(b)]);
    });
    if (!o.has_sinks) return;
    for (std::int64_t h = 0; h < o.H; ++h) {
      double sum = 0;
      for (const auto& row : dsinks) sum += row[static_cast<std::size_t>(h)];
      call.results[3].as<T>()[h] = store<T>(sum);
    }
  });
}

void highest(const KernelCall& call) {
  const View &from = call.operands[0], &to = call.results[0];
  const std::int64_t a = from.size(0) / to.size(0), b = from.size(1) / to.size(1), width = from.size(2);
  for_floating(from.dtype, [&]<typename T>() {
    std::fill_n(to.as<T>(), to.count(), store<T>(-std::numeric_limits<Wide<T>>::infinity()));
    for (std::int64_t i = 0; i < from.count(); ++i) {
      const std::int64_t row = i / width / from.size(1), column = i / width % from.size(1);
      T& most = to.as<T>()[(row / a * to.size(1) + column / b) * width + i % width];
      if (load(from.as<T>()[i]) > load(most)) most = from.as<T>()[i];
    }
  });
}

}  // namespace

Kernel find_attention(graph::Op op) {
  switch (op) {
    case graph::Op::attention: return attention;
    case graph::Op::attention_grad: return attention_grad;
    case graph::Op::highest: return highest;
    default: return nullptr;
  }
}

}  // namespace moesh::backend::reference
