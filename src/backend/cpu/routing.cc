// The router: which experts a token goes to, and with what weights.
#include <algorithm>
#include <cassert>
#include <limits>

#include "backend/cpu/kernels.h"
#include "backend/cpu/row_loop.h"
#include "backend/cpu/simd.h"
#include "backend/random_experts.h"
#include "backend/scratch_list.h"

namespace moesh::backend::cpu {
namespace {

using graph::TopKOf;

constexpr std::int64_t kScoreGrain = 8192;  // scores worth handing to a thread: choosing takes longer than adding

// Top-k: the indices of the k largest values; of equal values, the lower index comes first. If fewer than k values are above -inf, the
// lowest of the other indices fill up.
template <typename W>
void choose_largest(const W* values, std::int64_t count, std::int64_t k, ScratchList<char>& taken, std::int32_t* chosen) {
  taken.assign(static_cast<std::size_t>(count), 0);
  for (std::int64_t choice = 0; choice < k; ++choice) {
    std::int64_t best = -1;
    for (std::int64_t i = 0; i < count; ++i) {
      if (taken[static_cast<std::size_t>(i)] == 0 && (best < 0 || values[i] > values[best])) best = i;
    }
    taken[static_cast<std::size_t>(best)] = 1;
    chosen[choice] = static_cast<std::int32_t>(best);
  }
}

// Chooses the experts of one token after the other.
template <typename W>
class Chooser {
 public:
  Chooser(const TopKOf& of, std::int64_t experts) : of_(of), experts_(experts), scores_(static_cast<std::size_t>(experts)) {}

  template <typename T>
  void choose(const T* choosing, std::int32_t* ids) {
    for (std::size_t e = 0; e < scores_.size(); ++e) scores_[e] = load(choosing[e]);
    if (of_.groups > 0) leave_chosen_groups();
    choose_largest(scores_.data(), experts_, of_.k, taken_, ids);
  }

 private:
  // The score of a group is the sum of its best scores; experts of groups that are not chosen get -inf.
  void leave_chosen_groups() {
    const std::int64_t size = experts_ / of_.groups;
    const std::int64_t terms = std::min<std::int64_t>(of_.group_score_terms, size);
    groups_.assign(static_cast<std::size_t>(of_.groups), W(0));
    best_.resize(static_cast<std::size_t>(std::max(terms, of_.chosen_groups)));
    for (std::int64_t group = 0; group < of_.groups; ++group) {
      const W* scores = scores_.data() + group * size;
      choose_largest(scores, size, terms, taken_, best_.data());
      for (std::int64_t i = 0; i < terms; ++i) groups_[static_cast<std::size_t>(group)] += scores[best_[static_cast<std::size_t>(i)]];
    }
    choose_largest(groups_.data(), of_.groups, of_.chosen_groups, taken_, best_.data());
    for (std::int64_t e = 0; e < experts_; ++e) {
      if (taken_[static_cast<std::size_t>(e / size)] == 0) scores_[static_cast<std::size_t>(e)] = -std::numeric_limits<W>::infinity();
    }
  }

  const TopKOf& of_;
  std::int64_t experts_;
  ScratchList<W> scores_;
  ScratchList<W> groups_;
  ScratchList<std::int32_t> best_;
  ScratchList<char> taken_;
};

// Turns the chosen scores into weights, in place; the result of each step is rounded to T.
template <typename T>
void weigh(const TopKOf& of, ScratchList<Wide<T>>& weights) {
  using W = Wide<T>;
  if (of.weights == TopKOf::Weights::softmax_of_chosen) {
    const W largest = *std::max_element(weights.begin(), weights.end());
    W sum = 0;
    for (W& weight : weights) sum += weight = exp_of(weight - largest);
    for (W& weight : weights) weight = rounded<T>(weight / sum);
  }
  if (of.normalize) {
    W sum = 0;
    for (const W weight : weights) sum += weight;
    sum = rounded<T>(rounded<T>(sum) + static_cast<W>(of.normalize_epsilon));
    for (W& weight : weights) weight = rounded<T>(weight / sum);
  }
  if (of.scale != 1) {
    for (W& weight : weights) weight = rounded<T>(weight * static_cast<W>(of.scale));
  }
}

// Turns gradients of the weights into gradients of the chosen scores, in place.
template <typename W>
void weigh_back(const TopKOf& of, const ScratchList<W>& scores, ScratchList<W>& d) {
  const std::size_t k = scores.size();
  ScratchList<W> before(scores);  // the values that normalisation divided
  if (of.weights == TopKOf::Weights::softmax_of_chosen) {
    const W largest = *std::max_element(scores.begin(), scores.end());
    W sum = 0;
    for (W& weight : before) sum += weight = exp_of(weight - largest);
    for (W& weight : before) weight /= sum;
  }
  for (W& slope : d) slope *= static_cast<W>(of.scale);
  if (of.normalize) {
    W sum = static_cast<W>(of.normalize_epsilon);
    W mean = 0;
    for (const W weight : before) sum += weight;
    for (std::size_t i = 0; i < k; ++i) mean += d[i] * before[i] / sum;
    for (W& slope : d) slope = (slope - mean) / sum;
  }
  if (of.weights == TopKOf::Weights::softmax_of_chosen) {
    W mean = 0;
    for (std::size_t i = 0; i < k; ++i) mean += d[i] * before[i];
    for (std::size_t i = 0; i < k; ++i) d[i] = before[i] * (d[i] - mean);
  }
}

// The scores that choose the experts are of type C, those that become weights are of type T.
template <typename C, typename T>
void top_k_of(const KernelCall& call) {
  using W = Wide<T>;
  const TopKOf& of = std::get<TopKOf>(call.attributes);
  const View& choosing = call.operands[0];
  const T* weighing = call.operands.back().as<T>();
  const std::int64_t experts = choosing.shape.back();
  assert(of.k <= experts);
  const std::int64_t tokens = choosing.count() / experts;
  call.workers.parallel(tokens, grain_of(experts * of.k), [&](std::int64_t begin, std::int64_t end) {
    Chooser<Wide<C>> chooser(of, experts);
    ScratchList<W> weights(static_cast<std::size_t>(of.k));
    for (std::int64_t token = begin; token < end; ++token) {
      std::int32_t* ids = call.results[1].as<std::int32_t>() + token * of.k;
      chooser.choose(choosing.as<C>() + token * experts, ids);
      for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = load(weighing[token * experts + ids[i]]);
      weigh<T>(of, weights);
      T* result = call.results[0].as<T>() + token * of.k;
      for (std::size_t i = 0; i < weights.size(); ++i) result[i] = store<T>(weights[i]);
    }
  });
}

template <typename T>
void weigh_of(const KernelCall& call) {
  using W = Wide<T>;
  const TopKOf& of = std::get<TopKOf>(call.attributes);
  const std::int64_t experts = call.operands[0].shape.back(), tokens = call.operands[1].count() / of.k;
  call.workers.parallel(tokens, grain_of(4 * of.k), [&](std::int64_t begin, std::int64_t end) {
    ScratchList<W> weights(static_cast<std::size_t>(of.k));
    for (std::int64_t token = begin; token < end; ++token) {
      const T* of_token = call.operands[0].as<T>() + token * experts;
      const std::int32_t* ids = call.operands[1].as<std::int32_t>() + token * of.k;
      for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = load(of_token[ids[i]]);
      weigh<T>(of, weights);
      T* result = call.results[0].as<T>() + token * of.k;
      for (std::size_t i = 0; i < weights.size(); ++i) result[i] = store<T>(weights[i]);
    }
  });
}

template <typename T>
void top_k_grad_of(const KernelCall& call) {
  using W = Wide<T>;
  const TopKOf& of = std::get<TopKOf>(call.attributes);
  const std::int64_t experts = call.results[0].shape.back();
  const std::int64_t tokens = call.results[0].count() / experts;
  call.workers.parallel(tokens, grain_of(experts, kScoreGrain), [&](std::int64_t begin, std::int64_t end) {
    ScratchList<W> scores(static_cast<std::size_t>(of.k)), d(scores.size());
    for (std::int64_t token = begin; token < end; ++token) {
      const T* of_token = call.operands[0].as<T>() + token * experts;
      const std::int32_t* ids = call.operands[1].as<std::int32_t>() + token * of.k;
      const T* dweights = call.operands[2].as<T>() + token * of.k;
      for (std::size_t i = 0; i < d.size(); ++i) {
        scores[i] = load(of_token[ids[i]]);
        d[i] = load(dweights[i]);
      }
      weigh_back(of, scores, d);
      T* dscores = call.results[0].as<T>() + token * experts;
      std::fill_n(dscores, experts, store<T>(W(0)));
      for (std::size_t i = 0; i < d.size(); ++i) dscores[ids[i]] = store<T>(load(dscores[ids[i]]) + d[i]);  // one may be given twice
    }
  });
}

template <typename T>
void spread_of(const KernelCall& call) {
  const std::int64_t experts = call.results[0].shape.back();
  const std::int64_t k = call.operands[1].shape.back();
  call.workers.parallel(call.operands[1].count() / k, grain_of(experts, kScoreGrain), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      T* result = call.results[0].as<T>() + token * experts;
      std::fill_n(result, experts, store<T>(Wide<T>(0)));
      for (std::int64_t i = token * k; i < (token + 1) * k; ++i) {
        result[call.operands[1].as<std::int32_t>()[i]] = call.operands[0].as<T>()[i];
      }
    }
  });
}

template <typename T>
void spread_grad_of(const KernelCall& call) {
  const std::int64_t experts = call.operands[1].shape.back();
  const std::int64_t k = call.results[0].shape.back();
  const auto* ids = call.operands[0].as<std::int32_t>();
  call.workers.parallel(call.results[0].count(), kScoreGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      call.results[0].as<T>()[i] = call.operands[1].as<T>()[i / k * experts + ids[i]];
    }
  });
}

}  // namespace

void random_scores(const KernelCall& call) {
  const graph::DrawOf& of = std::get<graph::DrawOf>(call.attributes);
  const RandomKey key = draw_key(call.operands[0]);
  const auto* numbers = call.operands[1].as<std::int32_t>();
  call.workers.parallel(call.operands[1].count(), grain_of(16 * of.experts), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      float* scores = call.results[0].as<float>() + token * of.experts;
      for (std::int64_t e = 0; e < of.experts; ++e) scores[e] = random_score(key, numbers[token], e, of);
    }
  });
}

void top_k(const KernelCall& call) {
  for_floating(call.operands.front().dtype, [&]<typename C>() {
    for_floating(call.operands.back().dtype, [&]<typename T>() { top_k_of<C, T>(call); });
  });
}

void give_experts(const KernelCall& call) {
  const std::int64_t k = call.operands[0].size(1);
  for_floating(call.operands[0].dtype, [&]<typename T>() {
    call.workers.parallel(call.operands[1].count(), grain_of(k), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t token = begin; token < end; ++token) {
        const T* const row = call.operands[0].as<T>() + call.operands[1].as<std::int32_t>()[token] * k;
        std::int32_t* const ids = call.results[0].as<std::int32_t>() + token * k;
        for (std::int64_t i = 0; i < k; ++i) ids[i] = static_cast<std::int32_t>(load(row[i]));
      }
    });
  });
}

void weigh(const KernelCall& call) {
  for_floating(call.results[0].dtype, [&]<typename T>() { weigh_of<T>(call); });
}

void top_k_grad(const KernelCall& call) {
  for_floating(call.results[0].dtype, [&]<typename T>() { top_k_grad_of<T>(call); });
}

void spread(const KernelCall& call) {
  for_floating(call.results[0].dtype, [&]<typename T>() { spread_of<T>(call); });
}

void spread_grad(const KernelCall& call) {
  for_floating(call.results[0].dtype, [&]<typename T>() { spread_grad_of<T>(call); });
}

void expert_load(const KernelCall& call) {
  const std::int64_t choices = call.operands[0].size(1) * call.operands[0].size(2), width = call.results[0].size(1);
  call.workers.parallel(call.operands[0].size(0), grain_of(choices, kScoreGrain), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const auto* ids = call.operands[0].as<std::int32_t>() + row * choices;
      float* load = call.results[0].as<float>() + row * width;
      std::fill_n(load, width, 0.0f);
      for (std::int64_t i = 0; i < choices; ++i) ++load[ids[i]];
    }
  });
}

}  // namespace moesh::backend::cpu
