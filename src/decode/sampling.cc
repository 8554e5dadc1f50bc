#include "decode/sampling.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include <fmt/core.h>

#include "backend/cpu/simd.h"
#include "base/error.h"
#include "base/place.h"
#include "base/random.h"

namespace moesh::decode {
namespace {

// A token that may be chosen. Candidates are ordered by falling score, and by token id if scores are equal.
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

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The likeliest token. Minus infinity marks a token that is never chosen; any other score that is not finite has no place in the order
// and makes this fail.
std::int32_t likeliest(std::span<const float> scores) {
  float largest = 0;
  backend::cpu::vectorised(backend::cpu::chosen_isa(), [&]() MOESH_LOOP {
    const auto or_infinity = [&](std::int64_t i) MOESH_LOOP { return scores[at(i)] < kInfinity ? scores[at(i)] : kInfinity; };
    largest = backend::cpu::largest_of<float>(static_cast<std::int64_t>(scores.size()), or_infinity);
  });
  if (std::isfinite(largest)) return static_cast<std::int32_t>(std::find(scores.begin(), scores.end(), largest) - scores.begin());
  auto bad = std::find_if(scores.begin(), scores.end(), [](float score) { return !(score < kInfinity); });
  if (bad == scores.end()) bad = scores.begin();
  fail(fmt::format("no token can be chosen: the logit of token {} is {}", bad - scores.begin(), *bad), "the model's logits",
       "weights that are all finite, or activations of a wider range: dtype=float32");
}

// Candidates in order. They are sorted only as far as they are accessed.
class Ranked {
 public:
  explicit Ranked(std::span<const float> scores) {
    all_.reserve(scores.size());
    for (std::size_t i = 0; i < scores.size(); ++i) all_.push_back({static_cast<std::int32_t>(i), scores[i]});
  }

  std::size_t size() const { return all_.size(); }
  bool has_all_of(std::span<const float> scores) const { return size() == scores.size(); }
  const std::vector<Candidate>& in_any_order() const { return all_; }
  bool is_sorted() const { return sorted_ == size(); }
  const Candidate& at(std::size_t place) {
    while (place >= sorted_) sort_up_to(std::max(kFirst, 4 * sorted_));
    return all_[place];
  }
  void sort() { sort_up_to(size()); }

  void keep(std::size_t count) {
    if (count >= size()) return;
    if (count > sorted_) part_at(count);
    all_.resize(count);
    sorted_ = std::min(sorted_, count);
  }
  void keep_above(double least) {
    std::erase_if(all_, [&](const Candidate& candidate) { return candidate.score < least; });
    sorted_ = std::min(sorted_, size());
  }

 private:
  static constexpr std::size_t kFirst = 64;

  std::vector<Candidate>::iterator place(std::size_t at) { return all_.begin() + static_cast<std::ptrdiff_t>(at); }
  void part_at(std::size_t count) { std::nth_element(place(sorted_), place(count), all_.end()); }
  void sort_up_to(std::size_t count) {
    if (count < size()) part_at(count);
    count = std::min(count, size());
    std::sort(place(sorted_), place(count));
    sorted_ = count;
  }

  std::vector<Candidate> all_;
  std::size_t sorted_ = 0;  // number of candidates that are sorted, from the first on
};

// A candidate's probability relative to the first one's, in float64.
double weight(const Candidate& candidate, const Candidate& first, double temperature) {
  return std::exp((candidate.score - first.score) / temperature);
}

// The same in float32, for all scores: vectorised, so that a whole vocabulary takes microseconds.
constexpr std::size_t kBlock = 1024;
[[gnu::always_inline]] inline float weight(float score, float largest, float temperature) {
  return backend::cpu::exp_of((score - largest) / temperature);
}
float divisor_of(double temperature) { return static_cast<float>(std::max(temperature, 1e-30)); }

// The sum of the weights of each block of scores.
std::vector<double> block_sums(std::span<const float> scores, float largest, double temperature) {
  std::vector<double> sums;
  const float divisor = divisor_of(temperature);
  backend::cpu::vectorised(backend::cpu::chosen_isa(), [&]() MOESH_LOOP {
    for (std::size_t begin = 0; begin < scores.size(); begin += kBlock) {
      const float* const block = scores.data() + begin;
      const auto count = static_cast<std::int64_t>(std::min(kBlock, scores.size() - begin));
      sums.push_back(backend::cpu::sum_of<double>(count, [&](std::int64_t i) MOESH_LOOP { return weight(block[i], largest, divisor); }));
    }
  });
  return sums;
}

// Draws among all tokens in the order of their ids: without a limit on the choice they need not be sorted. `part` is the point of the
// draw, as a fraction of the sum of all weights.
std::int32_t drawn_among_all(std::span<const float> scores, std::int32_t likeliest, double temperature, double part) {
  const float largest = scores[at(likeliest)], divisor = divisor_of(temperature);
  const std::vector<double> sums = block_sums(scores, largest, temperature);
  double left = part * std::accumulate(sums.begin(), sums.end(), 0.0);
  std::size_t block = 0;
  while (block + 1 < sums.size() && left >= sums[block]) left -= sums[block++];
  for (std::size_t i = block * kBlock; i < std::min((block + 1) * kBlock, scores.size()); ++i) {
    const double here = weight(scores[i], largest, divisor);
    if (left < here) return static_cast<std::int32_t>(i);
    left -= here;
  }
  return likeliest;  // rounding left a remainder
}

// The place that `find` returns for the sum of all weights, added in sorted order. A larger sum gives the same place or a later one. So
// if both ends of the rounding interval of a sum in another order give the same place, the candidates need not be sorted. `scores`: the
// scores of all tokens.
template <typename Find>
std::size_t place_by_sum(Ranked& ranked, std::span<const float> scores, double temperature, const Find& find) {
  const auto found = [&](double sum, double error) -> std::optional<std::size_t> {
    const std::size_t low = find(sum - error * sum), high = find(sum + error * sum);
    return low == high ? std::optional(low) : std::nullopt;
  };
  const Candidate first = ranked.at(0);
  if (ranked.has_all_of(scores)) {
    constexpr double kErrorOfFloats = 1e-4;
    const std::vector<double> sums = block_sums(scores, static_cast<float>(first.score), temperature);
    if (const auto place = found(std::accumulate(sums.begin(), sums.end(), 0.0), kErrorOfFloats)) return *place;
  }
  while (true) {
    double sum = 0;
    for (const Candidate& candidate : ranked.in_any_order()) sum += weight(candidate, first, temperature);
    if (ranked.is_sorted()) return find(sum);
    if (const auto place = found(sum, 2 * static_cast<double>(ranked.size()) * std::numeric_limits<double>::epsilon())) return *place;
    ranked.sort();
  }
}

void keep_share(Ranked& ranked, std::span<const float> scores, double share, double temperature) {
  if (share >= 1) return;
  const std::size_t count = place_by_sum(ranked, scores, temperature, [&](double all) {
    const double needed = share * all;
    std::size_t taken = 0;
    for (double kept = 0; taken < ranked.size() && kept < needed; ++taken) kept += weight(ranked.at(taken), ranked.at(0), temperature);
    return taken;
  });
  ranked.keep(std::max<std::size_t>(count, 1));
}

void keep_as_likely(Ranked& ranked, double share, double temperature) {
  if (share > 0) ranked.keep_above(ranked.at(0).score + temperature * std::log(share));
}

// A uniform random number in [0, 1) with 53 bits, for a place of a text.
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
  const std::int32_t first = likeliest(scores);
  if (sampling.temperature <= 0) return first;
  const double part = uniform(sampling, text, before.size());
  const bool is_limited = sampling.top_k > 0 || sampling.top_p < 1 || sampling.min_p > 0;
  if (!is_limited) return drawn_among_all(scores, first, sampling.temperature, part);
  Ranked ranked(scores);
  const double temperature = sampling.limits_after_temperature ? sampling.temperature : 1;
  if (sampling.limits_after_temperature) keep_as_likely(ranked, sampling.min_p, temperature);
  if (sampling.top_k > 0) ranked.keep(static_cast<std::size_t>(sampling.top_k));
  keep_share(ranked, scores, sampling.top_p, temperature);
  if (!sampling.limits_after_temperature) keep_as_likely(ranked, sampling.min_p, temperature);
  const std::size_t drawn = place_by_sum(ranked, scores, sampling.temperature, [&](double all) {
    double left = part * all;
    for (std::size_t place = 0; place + 1 < ranked.size(); ++place) {
      const double here = weight(ranked.at(place), ranked.at(0), sampling.temperature);
      if (left < here) return place;
      left -= here;
    }
    return ranked.size() - 1;
  });
  return ranked.at(drawn).token;
}

}  // namespace moesh::decode
