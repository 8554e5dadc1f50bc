#include "decode/sampling.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/random.h"

namespace moesh::decode {
namespace {

// A token that may be chosen. The likeliest first; of those that are equal the one with the lower number.
struct Candidate {
  std::int32_t token;
  double score;

  bool operator<(const Candidate& other) const { return score > other.score || (score == other.score && token < other.token); }
};

std::vector<float> penalised(std::span<const float> logits, std::span<const std::int32_t> before, double penalty) {
  std::vector<float> scores(logits.begin(), logits.end());
  for (const std::int32_t token : before) {
    const auto at = static_cast<std::size_t>(token);
    scores[at] = static_cast<float>(logits[at] > 0 ? logits[at] / penalty : logits[at] * penalty);
  }
  return scores;
}

std::int32_t likeliest(std::span<const float> scores) {
  return static_cast<std::int32_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

// Those that a top_k leaves, sorted where their order is asked for.
std::vector<Candidate> candidates_of(std::span<const float> scores, const Sampling& sampling) {
  std::vector<Candidate> all;
  for (std::size_t i = 0; i < scores.size(); ++i) all.push_back({static_cast<std::int32_t>(i), scores[i]});
  if (sampling.top_k > 0 && sampling.top_k < static_cast<std::int64_t>(all.size())) {
    std::nth_element(all.begin(), all.begin() + sampling.top_k, all.end());
    all.resize(static_cast<std::size_t>(sampling.top_k));
  }
  std::sort(all.begin(), all.end());
  return all;
}

// Weights of sorted candidates: exponentials above the first.
std::vector<double> weights_of(const std::vector<Candidate>& sorted, double temperature) {
  std::vector<double> weights;
  for (const Candidate& candidate : sorted) weights.push_back(std::exp((candidate.score - sorted.front().score) / temperature));
  return weights;
}

void keep_share(std::vector<Candidate>& sorted, double share) {
  if (share >= 1) return;
  const std::vector<double> weights = weights_of(sorted, 1);
  double all = 0, kept = 0;
  for (const double weight : weights) all += weight;
  std::size_t count = 0;
  while (count < sorted.size() && kept < share * all) kept += weights[count++];
  sorted.resize(std::max<std::size_t>(count, 1));
}

void keep_as_likely(std::vector<Candidate>& sorted, double share) {
  if (share <= 0) return;
  const double least = sorted.front().score + std::log(share);
  while (sorted.back().score < least) sorted.pop_back();
}

// In [0, 1), with 53 bits.
double uniform(const Sampling& sampling, std::int64_t text, std::size_t place) {
  const RandomKey key = fold_in(random_key(sampling.seed), static_cast<std::uint32_t>(text));
  const auto index = 2 * static_cast<std::uint64_t>(place);
  const std::uint64_t bits = (std::uint64_t{random_bits(key, index)} << 21) ^ (random_bits(key, index + 1) >> 11);
  return static_cast<double>(bits) * 0x1p-53;
}

}  // namespace

Sampling sampling_of(const config::Settings& settings) {
  const std::string& strategy = settings.text("decode_sampling_strategy");
  const std::string& where = settings.origin("decode_sampling_strategy").where;
  Sampling sampling;
  sampling.seed = settings.integer("decode_sampling_seed");
  sampling.repetition_penalty = settings.real("decode_sampling_repetition_penalty");
  if (strategy == "greedy") return sampling;
  sampling.temperature = settings.real("decode_sampling_temperature");
  sampling.min_p = settings.real("decode_sampling_min_p");
  if (strategy == "topk" || strategy == "composite") {
    sampling.top_k = settings.integer("decode_sampling_top_k");
    if (sampling.top_k <= 0) {
      refuse("decode_sampling_strategy=" + strategy + " chooses among decode_sampling_top_k tokens, which is 0", where,
             "decode_sampling_top_k=40");
    }
  }
  if (strategy == "nucleus" || strategy == "composite") {
    sampling.top_p = settings.real("decode_sampling_nucleus_p");
    if (sampling.top_p <= 0) {
      refuse("decode_sampling_strategy=" + strategy + " chooses among a share of decode_sampling_nucleus_p, which is not above 0",
             where, "decode_sampling_nucleus_p=0.9");
    }
  }
  return sampling;
}

std::int32_t sample(std::span<const float> logits, std::span<const std::int32_t> before, const Sampling& sampling, std::int64_t text) {
  assert(!logits.empty());
  std::vector<float> changed;
  if (sampling.repetition_penalty != 1) changed = penalised(logits, before, sampling.repetition_penalty);
  const std::span<const float> scores = changed.empty() ? logits : std::span<const float>(changed);
  if (sampling.temperature <= 0) return likeliest(scores);
  std::vector<Candidate> sorted = candidates_of(scores, sampling);
  keep_share(sorted, sampling.top_p);
  keep_as_likely(sorted, sampling.min_p);
  const std::vector<double> weights = weights_of(sorted, sampling.temperature);
  double all = 0;
  for (const double weight : weights) all += weight;
  double left = uniform(sampling, text, before.size()) * all;
  for (std::size_t i = 0; i + 1 < weights.size(); ++i) {
    if (left < weights[i]) return sorted[i].token;
    left -= weights[i];
  }
  return sorted.back().token;
}

}  // namespace moesh::decode
