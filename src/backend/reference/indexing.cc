// The indexer, one query at a time. Shape suffixes: B rows, S queries, T keys, H heads, D a head's width.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "backend/chosen_keys.h"
#include "backend/element.h"
#include "backend/reference/kernels.h"

namespace moesh::backend::reference {
namespace {

template <typename T>
Wide<T> dot(const T* a, const T* b, std::int64_t count) {
  Wide<T> sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += load(a[i]) * load(b[i]);
  return sum;
}

// The sizes of query, key, weights, and the order of the queries.
struct Sizes {
  std::int64_t B, S, T, H, D;
  graph::IndexScoresOf of;
  const std::int32_t* order;

  // Whether a query, counted over all rows, scores a key.
  bool scores(std::int64_t query, std::int64_t key) const { return !of.keys_by_place || (key + 1) * of.tokens_of_key - 1 <= order[query]; }

  explicit Sizes(const KernelCall& call)
      : B(call.operands[0].size(0)), S(call.operands[0].size(1)), T(call.operands[1].size(1)), H(call.operands[0].size(2)),
        D(call.operands[0].size(3)),
        of(std::get<graph::IndexScoresOf>(call.attributes)), order(call.operands[3].as<std::int32_t>()) {}
};

void index_scores(const KernelCall& call) {
  const Sizes n(call);
  for_floating(call.operands[0].dtype, [&]<typename T>() {
    using W = Wide<T>;
    const T *query = call.operands[0].as<T>(), *key = call.operands[1].as<T>();
    const W* weights = call.operands[2].as<W>();
    for (std::int64_t q = 0; q < n.B * n.S; ++q) {
      for (std::int64_t t = 0; t < n.T; ++t) {
        W sum = 0;
        for (std::int64_t h = 0; h < n.H && n.scores(q, t); ++h) {
          const W product = dot(query + (q * n.H + h) * n.D, key + (q / n.S * n.T + t) * n.D, n.D);
          sum += weights[q * n.H + h] * std::max(product, W(0));
        }
        call.results[0].as<W>()[q * n.T + t] = sum;
      }
    }
  });
}

void index_scores_grad(const KernelCall& call) {
  const Sizes n(call);
  for_floating(call.operands[0].dtype, [&]<typename T>() {
    using W = Wide<T>;
    const T *query = call.operands[0].as<T>(), *key = call.operands[1].as<T>();
    const W *weights = call.operands[2].as<W>(), *dscores = call.operands[4].as<W>();
    std::vector<W> dquery(static_cast<std::size_t>(n.B * n.S * n.H * n.D)), dkey(static_cast<std::size_t>(n.B * n.T * n.D));
    for (std::int64_t q = 0; q < n.B * n.S; ++q) {
      for (std::int64_t h = 0; h < n.H; ++h) {
        W dweight = 0;
        for (std::int64_t t = 0; t < n.T; ++t) {
          const std::int64_t of_query = (q * n.H + h) * n.D, of_key = (q / n.S * n.T + t) * n.D;
          const W product = dot(query + of_query, key + of_key, n.D), dscore = dscores[q * n.T + t];
          if (!(product > 0) || !n.scores(q, t)) continue;
          dweight += dscore * product;
          const W slope = dscore * weights[q * n.H + h];
          for (std::int64_t i = 0; i < n.D; ++i) {
            dquery[static_cast<std::size_t>(of_query + i)] += slope * load(key[of_key + i]);
            dkey[static_cast<std::size_t>(of_key + i)] += slope * load(query[of_query + i]);
          }
        }
        call.results[2].as<W>()[q * n.H + h] = dweight;
      }
    }
    std::transform(dquery.begin(), dquery.end(), call.results[0].as<T>(), [](W x) { return store<T>(x); });
    std::transform(dkey.begin(), dkey.end(), call.results[1].as<T>(), [](W x) { return store<T>(x); });
  });
}

void choose_keys(const KernelCall& call) {
  const auto& of = std::get<graph::ChooseKeysOf>(call.attributes);
  const View &scores = call.operands[0], &chosen = call.results[0];
  const std::int64_t S = scores.size(1), T = scores.size(2), words = chosen.size(2);
  const auto number = [&](std::size_t operand, std::int64_t i) { return call.operands[operand].as<std::int32_t>()[i]; };
  std::fill_n(chosen.as<std::int32_t>(), chosen.count(), 0);
  for_floating(scores.dtype, [&]<typename F>() {
    for (std::int64_t q = 0; q < scores.size(0) * S; ++q) {
      std::vector<std::int64_t> seen;
      for (std::int64_t t = 0; t < T; ++t) {
        const std::int64_t key = q / S * T + t;
        if (of.keys_by_place && (t + 1) * of.tokens_of_key - 1 > number(1, q)) break;
        if (number(4, key) == number(2, q) && number(3, key) <= number(1, q)) seen.push_back(t);
      }
      const auto rank = [&](std::int64_t t) { return rank_of(load(scores.as<F>()[q * T + t])); };
      const auto place = [&](std::int64_t t) { return number(3, q / S * T + t); };
      std::sort(seen.begin(), seen.end(), [&](std::int64_t a, std::int64_t b) {
        return rank(a) != rank(b) ? rank(a) > rank(b) : place(a) < place(b);
      });
      auto count = static_cast<std::size_t>(of.keys);
      while (!of.breaks_ties && count < seen.size() && rank(seen[count]) == rank(seen[static_cast<std::size_t>(of.keys) - 1])) ++count;
      if (count < seen.size()) seen.resize(count);
      for (const std::int64_t t : seen) {
        std::int32_t& word = chosen.as<std::int32_t>()[q * words + t / graph::kKeysOfWord];
        word = static_cast<std::int32_t>(static_cast<std::uint32_t>(word) | std::uint32_t{1} << (t % graph::kKeysOfWord));
      }
    }
  });
}

template <typename E>
void copy_chosen(const KernelCall& call, std::size_t i) {
  const ChosenKeys chosen(call.operands[0]);
  const View &rows = call.operands[i], &made = call.results[i - 1];
  const std::int64_t T = rows.size(1), K = made.size(1), width = rows.count() / std::max<std::int64_t>(1, rows.size(0) * T);
  for (std::int64_t b = 0; b < rows.size(0); ++b) {
    E* to = made.as<E>() + b * K * width;
    std::fill_n(to, K * width, std::is_same_v<E, std::int32_t> ? E(-1) : E(0));
    std::int64_t k = 0;
    const auto take = [&](std::int64_t t) {
      if (k < K) std::copy_n(rows.as<E>() + (b * T + t) * width, width, to + k++ * width);
    };
    const std::int64_t first = std::get<graph::ChosenRowsOf>(call.attributes).first;
    for (std::int64_t t = 0; t < first; ++t) take(t);
    chosen.each(b, [&](std::int64_t t) { take(first + t); });
  }
}

void chosen_rows(const KernelCall& call) {
  for (std::size_t i = 1; i < call.operands.size(); ++i) {
    if (call.operands[i].dtype == DType::int32) copy_chosen<std::int32_t>(call, i);
    else for_floating(call.operands[i].dtype, [&]<typename T>() { copy_chosen<T>(call, i); });
  }
}

void attention_shares(const KernelCall& call) {
  const View &query = call.operands[0], &key = call.operands[1];
  const std::int64_t S = query.size(1), T = key.size(1), H = query.size(2), D = query.size(3);
  const ChosenKeys chosen(call.operands[2]);
  for_floating(query.dtype, [&]<typename F>() {
    using W = Wide<F>;
    std::fill_n(call.results[0].as<W>(), call.results[0].count(), W(0));
    for (std::int64_t q = 0; q < query.size(0) * S; ++q) {
      W* const shares = call.results[0].as<W>() + q * T;
      for (std::int64_t h = 0; h < H; ++h) {
        std::vector<W> scores(static_cast<std::size_t>(T));
        W largest = -std::numeric_limits<W>::infinity(), sum = 0;
        const auto each = [&](const auto& see) { chosen.each(q, [&](std::int64_t t) { see(scores[static_cast<std::size_t>(t)], t); }); };
        each([&](W& score, std::int64_t t) {
          score = dot(query.as<F>() + (q * H + h) * D, key.as<F>() + ((q / S * T + t) * H + h) * D, D);
          largest = std::max(largest, score);
        });
        each([&](W& score, std::int64_t) { sum += score = std::exp(score - largest); });
        each([&](W& score, std::int64_t t) { shares[t] += score / sum; });
      }
    }
  });
}

// For the chosen keys of a query: the keys, the shares, which add up to one, and the softmax of the scores.
template <typename W>
struct Compared {
  std::vector<std::int64_t> keys;
  std::vector<W> shares, softmax;

  Compared(const KernelCall& call, std::int64_t query) {
    const std::int64_t T = call.operands[0].size(2);
    const W *scores = call.operands[0].as<W>() + query * T, *all_shares = call.operands[1].as<W>() + query * T;
    ChosenKeys(call.operands[2]).each(query, [&](std::int64_t t) { keys.push_back(t); });
    W largest = -std::numeric_limits<W>::infinity(), sum = 0, all = 0;
    for (const std::int64_t t : keys) largest = std::max(largest, scores[t]);
    for (const std::int64_t t : keys) {
      softmax.push_back(std::exp(scores[t] - largest));
      shares.push_back(all_shares[t]);
      sum += softmax.back();
      all += shares.back();
    }
    for (W& x : softmax) x /= sum;
    for (W& x : shares) x /= all + static_cast<W>(kIndexEpsilon);
  }
};

void index_loss(const KernelCall& call) {
  for_floating(call.operands[0].dtype, [&]<typename W>() {
    if constexpr (std::is_same_v<W, Wide<W>>) {
      for (std::int64_t q = 0; q < call.results[0].count(); ++q) {
        const Compared<W> of(call, q);
        W sum = 0;
        const auto log = [](W x) { return std::log(x + static_cast<W>(kIndexEpsilon)); };
        for (std::size_t i = 0; i < of.keys.size(); ++i) sum += of.shares[i] * (log(of.shares[i]) - log(of.softmax[i]));
        call.results[0].as<W>()[q] = sum;
      }
    }
  });
}

void index_loss_grad(const KernelCall& call) {
  for_floating(call.operands[0].dtype, [&]<typename W>() {
    if constexpr (std::is_same_v<W, Wide<W>>) {
      const std::int64_t T = call.operands[0].size(2);
      std::fill_n(call.results[0].as<W>(), call.results[0].count(), W(0));
      for (std::int64_t q = 0; q < call.operands[3].count(); ++q) {
        const Compared<W> of(call, q);
        const auto slope = [&](std::size_t i) { return -of.shares[i] / (of.softmax[i] + static_cast<W>(kIndexEpsilon)); };
        W mean = 0;
        for (std::size_t i = 0; i < of.keys.size(); ++i) mean += of.softmax[i] * slope(i);
        for (std::size_t i = 0; i < of.keys.size(); ++i)
          call.results[0].as<W>()[q * T + of.keys[i]] = call.operands[3].as<W>()[q] * of.softmax[i] * (slope(i) - mean);
      }
    }
  });
}

}  // namespace

Kernel find_indexing(graph::Op op) {
  switch (op) {
    case graph::Op::index_scores: return index_scores;
    case graph::Op::index_scores_grad: return index_scores_grad;
    case graph::Op::choose_keys: return choose_keys;
    case graph::Op::chosen_rows: return chosen_rows;
    case graph::Op::attention_shares: return attention_shares;
    case graph::Op::index_loss: return index_loss;
    case graph::Op::index_loss_grad: return index_loss_grad;
    default: return nullptr;
  }
}

}  // namespace moesh::backend::reference
