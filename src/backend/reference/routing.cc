// Choosing experts and what follows from the choice. Shape suffixes: B rows, S length, E experts, K choices.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "backend/element.h"
#include "backend/random_experts.h"
#include "backend/reference/kernels.h"
#include "backend/scalar.h"

namespace moesh::backend::reference {
namespace {


// Indices of the largest values in descending order; equal values keep their order.
template <typename W>
std::vector<std::int32_t> largest(const std::vector<W>& values, std::int64_t count) {
  std::vector<std::int32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return values[static_cast<std::size_t>(a)] > values[static_cast<std::size_t>(b)];
  });
  order.resize(static_cast<std::size_t>(count));
  return order;
}

// Sets all scores to -infinity but those of the best groups; a group's score is the sum of its few best.
template <typename W>
void keep_best_groups(const graph::TopKOf& of, std::vector<W>& scores) {
  const std::int64_t size = static_cast<std::int64_t>(scores.size()) / of.groups;
  std::vector<W> group_scores;
  for (std::int64_t g = 0; g < of.groups; ++g) {
    const std::vector<W> own(scores.begin() + g * size, scores.begin() + (g + 1) * size);
    W sum = 0;
    for (const std::int32_t i : largest(own, std::min<std::int64_t>(of.group_score_terms, size))) {
      sum += own[static_cast<std::size_t>(i)];
    }
    group_scores.push_back(sum);
  }
  std::vector<bool> kept(static_cast<std::size_t>(of.groups), false);
  for (const std::int32_t g : largest(group_scores, of.chosen_groups)) kept[static_cast<std::size_t>(g)] = true;
  for (std::size_t e = 0; e < scores.size(); ++e) {
    if (!kept[e / static_cast<std::size_t>(size)]) scores[e] = -std::numeric_limits<W>::infinity();
  }
}

// The weights of the chosen scores, and the cotangents of these scores from those of the weights.
template <typename W>
std::vector<W> weigh(const graph::TopKOf& of, const std::vector<W>& chosen) {
  std::vector<W> weights = chosen;
  if (of.weights == graph::TopKOf::Weights::softmax_of_chosen) {
    const W most = *std::max_element(chosen.begin(), chosen.end());
    W sum = 0;
    for (W& w : weights) sum += w = std::exp(w - most);
    for (W& w : weights) w /= sum;
  }
  if (of.normalize) {
    const W sum = std::accumulate(weights.begin(), weights.end(), W(0)) + static_cast<W>(of.normalize_epsilon);
    for (W& w : weights) w /= sum;
  }
  for (W& w : weights) w *= static_cast<W>(of.scale);
  return weights;
}

template <typename W>
std::vector<W> weigh_back(const graph::TopKOf& of, const std::vector<W>& chosen, std::vector<W> d) {
  graph::TopKOf plain = of;
  plain.normalize = false;
  plain.scale = 1;
  const std::vector<W> weights = weigh(plain, chosen);  // before normalisation and scaling
  for (W& x : d) x *= static_cast<W>(of.scale);
  const auto dot = [&](const std::vector<W>& a) { return std::inner_product(a.begin(), a.end(), d.begin(), W(0)); };
  if (of.normalize) {
    const W sum = std::accumulate(weights.begin(), weights.end(), W(0)) + static_cast<W>(of.normalize_epsilon);
    const W pull = dot(weights) / sum;
    for (W& x : d) x = (x - pull) / sum;
  }
  if (of.weights == graph::TopKOf::Weights::softmax_of_chosen) {
    const W pull = dot(weights);
    for (std::size_t i = 0; i < d.size(); ++i) d[i] = weights[i] * (d[i] - pull);
  }
  return d;
}

void random_scores(const KernelCall& call) {
  const auto& of = std::get<graph::DrawOf>(call.attributes);
  for (std::int64_t i = 0; i < call.results[0].count(); ++i) {
    const std::int32_t number = call.operands[1].as<std::int32_t>()[i / of.experts];
    call.results[0].as<float>()[i] = random_score(draw_key(call.operands[0]), number, i % of.experts, of);
  }
}

// The experts that one token chooses.
std::vector<std::int32_t> chosen_experts(const graph::TopKOf& of, const View& choosing, std::int64_t token) {
  std::vector<std::int32_t> ids;
  for_floating(choosing.dtype, [&]<typename C>() {
    const C* from = choosing.as<C>() + token * choosing.shape.back();
    std::vector<Wide<C>> scores;
    for (std::int64_t e = 0; e < choosing.shape.back(); ++e) scores.push_back(load(from[e]));
    if (of.groups > 0) keep_best_groups(of, scores);
    ids = largest(scores, of.k);
  });
  return ids;
}

void top_k(const KernelCall& call) {
  const auto& of = std::get<graph::TopKOf>(call.attributes);
  const View& weighing = call.operands.back();
  const std::int64_t experts = weighing.shape.back();
  for_floating(weighing.dtype, [&]<typename T>() {
    for (std::int64_t token = 0; token < weighing.count() / experts; ++token) {
      const std::vector<std::int32_t> ids = chosen_experts(of, call.operands[0], token);
      std::vector<Wide<T>> chosen;
      for (const std::int32_t id : ids) chosen.push_back(load(weighing.as<T>()[token * experts + id]));
      const std::vector<Wide<T>> weights = weigh(of, chosen);
      for (std::int64_t c = 0; c < of.k; ++c) {
        call.results[0].as<T>()[token * of.k + c] = store<T>(weights[static_cast<std::size_t>(c)]);
        call.results[1].as<std::int32_t>()[token * of.k + c] = ids[static_cast<std::size_t>(c)];
      }
    }
  });
}

void give_experts(const KernelCall& call) {
  const std::int64_t k = call.operands[0].size(1);
  for_floating(call.operands[0].dtype, [&]<typename T>() {
    for (std::int64_t i = 0; i < call.results[0].count(); ++i) {
      const std::int32_t token = call.operands[1].as<std::int32_t>()[i / k];
      call.results[0].as<std::int32_t>()[i] = static_cast<std::int32_t>(load(call.operands[0].as<T>()[token * k + i % k]));
    }
  });
}

void weigh(const KernelCall& call) {
  const auto& of = std::get<graph::TopKOf>(call.attributes);
  const View &scores = call.operands[0], &ids = call.operands[1];
  const std::int64_t experts = scores.shape.back();
  for_floating(scores.dtype, [&]<typename T>() {
    for (std::int64_t first = 0; first < ids.count(); first += of.k) {
      std::vector<Wide<T>> chosen;
      for (std::int64_t c = 0; c < of.k; ++c)
        chosen.push_back(load(scores.as<T>()[first / of.k * experts + ids.as<std::int32_t>()[first + c]]));
      const std::vector<Wide<T>> weights = weigh(of, chosen);
      for (std::int64_t c = 0; c < of.k; ++c) call.results[0].as<T>()[first + c] = store<T>(weights[static_cast<std::size_t>(c)]);
    }
  });
}

void top_k_grad(const KernelCall& call) {
  const auto& of = std::get<graph::TopKOf>(call.attributes);
  const View& dscores = call.results[0];
  const std::int64_t experts = dscores.shape.back();
  for_floating(dscores.dtype, [&]<typename T>() {
    std::fill_n(dscores.as<T>(), dscores.count(), store<T>(0.0f));
    for (std::int64_t token = 0; token < dscores.count() / experts; ++token) {
      const std::int32_t* ids = call.operands[1].as<std::int32_t>() + token * of.k;
      std::vector<Wide<T>> chosen;
      std::vector<Wide<T>> d;
      for (std::int64_t c = 0; c < of.k; ++c) {
        chosen.push_back(load(call.operands[0].as<T>()[token * experts + ids[c]]));
        d.push_back(load(call.operands[2].as<T>()[token * of.k + c]));
      }
      d = weigh_back(of, chosen, std::move(d));
      for (std::int64_t c = 0; c < of.k; ++c) {
        T& own = dscores.as<T>()[token * experts + ids[c]];  // an expert may be given twice
        own = store<T>(load(own) + d[static_cast<std::size_t>(c)]);
      }
    }
  });
}

void spread(const KernelCall& call) {
  const View& out = call.results[0];
  const std::int64_t experts = out.shape.back();
  const std::int64_t k = call.operands[1].shape.back();
  for_floating(out.dtype, [&]<typename T>() {
    std::fill_n(out.as<T>(), out.count(), store<T>(0.0f));
    for (std::int64_t slot = 0; slot < call.operands[1].count(); ++slot) {
      out.as<T>()[slot / k * experts + call.operands[1].as<std::int32_t>()[slot]] = call.operands[0].as<T>()[slot];
    }
  });
}

void spread_grad(const KernelCall& call) {
  const std::int64_t experts = call.operands[1].shape.back();
  const std::int64_t k = call.operands[0].shape.back();
  for_floating(call.results[0].dtype, [&]<typename T>() {
    for (std::int64_t slot = 0; slot < call.operands[0].count(); ++slot) {
      call.results[0].as<T>()[slot] = call.operands[1].as<T>()[slot / k * experts + call.operands[0].as<std::int32_t>()[slot]];
    }
  });
}

void expert_load(const KernelCall& call) {
  const View& ids = call.operands[0];
  const View& out = call.results[0];
  const std::int64_t choices = ids.size(1) * ids.size(2);
  std::fill_n(out.as<float>(), out.count(), 0.0f);
  for (std::int64_t i = 0; i < ids.count(); ++i) ++out.as<float>()[i / choices * out.size(1) + ids.as<std::int32_t>()[i]];
}

}  // namespace

Kernel find_routing(graph::Op op) {
  switch (op) {
    case graph::Op::random_scores: return random_scores;
    case graph::Op::top_k: return top_k;
    case graph::Op::give_experts: return give_experts;
    case graph::Op::weigh: return weigh;
    case graph::Op::top_k_grad: return top_k_grad;
    case graph::Op::spread: return spread;
    case graph::Op::spread_grad: return spread_grad;
    case graph::Op::expert_load: return expert_load;
    default: return nullptr;
  }
}

}  // namespace moesh::backend::reference
