#include "forecast/expert_draw.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <numeric>
#include <random>

#include "base/rounding.h"

namespace moesh::forecast {
namespace {

constexpr double kManyRows = 64;  // per device, from which on their distribution is taken as normal
constexpr std::int64_t kNumbers = std::int64_t{1} << 19;  // random numbers for the samples of one load
constexpr std::int64_t kMostSamples = 2048, kLeastSamples = 128;
constexpr double kLeastWeight = 1e-300;

class Random {
 public:
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }  // in [0, 1)
  double normal() {
    has_spare_ = !has_spare_;
    if (!has_spare_) return spare_;
    const double radius = std::sqrt(-2 * std::log(1 - uniform())), angle = 2 * std::numbers::pi * uniform();
    spare_ = radius * std::sin(angle);
    return radius * std::cos(angle);
  }
  template <typename T>
  void shuffle(std::vector<T>& all) {
    for (std::size_t i = all.size(); i > 1; --i)
      std::swap(all[i - 1], all[static_cast<std::size_t>(uniform() * static_cast<double>(i))]);
  }

 private:
  std::mt19937_64 engine_{1};
  double spare_ = 0;
  bool has_spare_ = false;
};

std::vector<double> weights_of(std::int64_t experts, double skew) {
  std::vector<double> weights;
  for (std::int64_t r = 1; r <= experts; ++r)
    weights.push_back(std::max(kLeastWeight, std::pow(static_cast<double>(r), -skew)));
  return weights;
}

// Weighted draws without replacement, by a binary tree of sums. A sum is always recomputed from its two parts, so that no precision is
// lost if weights differ widely.
class Urn {
 public:
  explicit Urn(const std::vector<double>& weights)
      : leaves_(std::bit_ceil(weights.size())), sums_(2 * leaves_), weights_(weights) {
    std::copy(weights.begin(), weights.end(), sums_.begin() + static_cast<std::ptrdiff_t>(leaves_));
    for (std::size_t node = leaves_; node-- > 1;) sums_[node] = sums_[2 * node] + sums_[2 * node + 1];
  }

  std::size_t take(double uniform) {
    std::size_t node = 1;
    for (double left = uniform * sums_[1]; node < leaves_;) {
      node *= 2;
      if (left < sums_[node] || sums_[node + 1] == 0) continue;
      left -= sums_[node++];
    }
    set(node, 0);
    return node - leaves_;
  }
  void put_back(std::size_t rank) { set(leaves_ + rank, weights_[rank]); }

 private:
  void set(std::size_t node, double weight) {
    sums_[node] = weight;
    while ((node /= 2) > 0) sums_[node] = sums_[2 * node] + sums_[2 * node + 1];
  }

  std::size_t leaves_;
  std::vector<double> sums_;
  const std::vector<double>& weights_;
};

std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

// By an expert's rank: the device that has it.
std::vector<std::size_t> devices_in_order(const Draw& draw) {
  std::vector<std::size_t> devices(size(draw.experts));
  const std::size_t each = size(divide_up(draw.experts, draw.devices));
  for (std::size_t rank = 0; rank < devices.size(); ++rank) devices[rank] = rank / each;
  return devices;
}

// Samples the rows per device of one group, token by token.
class FewRows {
 public:
  explicit FewRows(const Draw& draw)
      : draw_(draw), weights_(weights_of(draw.experts, draw.skew)), urn_(weights_), chosen_(size(draw.choices)) {}

  std::int64_t numbers() const { return draw_.groups * draw_.tokens * draw_.choices; }
  void place(const std::vector<std::size_t>& devices) { devices_ = &devices; }
  void draw(Random& random, std::vector<double>& rows) {
    std::fill(rows.begin(), rows.end(), 0.0);
    for (std::int64_t token = 0; token < draw_.tokens; ++token) {
      for (std::size_t& rank : chosen_) rows[(*devices_)[rank = urn_.take(random.uniform())]] += 1;
      for (const std::size_t rank : chosen_) urn_.put_back(rank);
    }
  }

 private:
  const Draw& draw_;
  std::vector<double> weights_;
  Urn urn_;
  std::vector<std::size_t> chosen_;
  const std::vector<std::size_t>* devices_ = nullptr;
};

// Samples the same as normal variates, by their means and covariances. Since a token has a fixed number of choices, the rows of devices
// are correlated: let c_d be the sum of p (1 - p) over the experts of device d, where p is an expert's chance, times tokens and
// experts / (experts - 1), and c the sum over all devices. Then the variance of a device is c_d - c_d^2 / c and the covariance of two is
// -c_d c_e / c, which is exact without skew.
class ManyRows {
 public:
  explicit ManyRows(const Draw& draw)
      : draw_(draw),
        chances_(chances_of(draw.experts, draw.choices, draw.skew)),
        means_(size(draw.devices)),
        spreads_(size(draw.devices)),
        noise_(size(draw.devices)) {}

  std::int64_t numbers() const { return draw_.experts + draw_.groups * draw_.devices; }
  void place(const std::vector<std::size_t>& devices) {
    std::fill(means_.begin(), means_.end(), 0.0);
    std::fill(spreads_.begin(), spreads_.end(), 0.0);
    const auto tokens = static_cast<double>(draw_.tokens), experts = static_cast<double>(draw_.experts);
    for (std::size_t rank = 0; rank < devices.size(); ++rank) {
      means_[devices[rank]] += tokens * chances_[rank];
      spreads_[devices[rank]] += tokens * chances_[rank] * (1 - chances_[rank]) * experts / std::max(1.0, experts - 1);
    }
    all_ = std::accumulate(spreads_.begin(), spreads_.end(), 0.0);
  }
  void draw(Random& random, std::vector<double>& rows) {
    double sum = 0;
    for (std::size_t d = 0; d < rows.size(); ++d)
      sum += noise_[d] = std::sqrt(std::max(0.0, spreads_[d])) * random.normal();
    const auto most = static_cast<double>(draw_.most_rows());
    for (std::size_t d = 0; d < rows.size(); ++d)
      rows[d] = std::clamp(means_[d] + noise_[d] - (all_ > 0 ? spreads_[d] / all_ * sum : 0), 0.0, most);
  }

 private:
  const Draw& draw_;
  std::vector<double> chances_;
  std::vector<double> means_, spreads_, noise_;  // by device
  double all_ = 0;                               // the sum of the spreads
};

template <typename Rows>
Load sampled(Rows rows_of, const Draw& draw, ExpertOrder order, std::int64_t room) {
  Random random;
  std::vector<std::size_t> devices = devices_in_order(draw);
  std::vector<double> rows(size(draw.devices)), most;
  Load load{0};
  const std::int64_t samples = std::clamp(kNumbers / rows_of.numbers(), kLeastSamples, kMostSamples);
  for (std::int64_t s = 0; s < samples; ++s) {
    if (order == ExpertOrder::random) random.shuffle(devices);
    rows_of.place(devices);
    most.push_back(0);
    for (std::int64_t group = 0; group < draw.groups; ++group) {
      rows_of.draw(random, rows);
      for (const double count : rows) {
        most.back() = std::max(most.back(), count);
        if (room > 0) load.dropped += std::max(0.0, count - static_cast<double>(room));
      }
    }
    load.busiest += most.back();
    if (room > 0 && most.back() > static_cast<double>(room)) load.overflows += 1;
  }
  const auto all = static_cast<double>(samples);
  std::sort(most.begin(), most.end());
  load.busiest /= all * draw.mean_rows();
  load.almost_always = most[size(samples * 99 / 100)] / draw.mean_rows();
  load.overflows /= all;
  load.dropped /= all * static_cast<double>(draw.groups * draw.tokens * draw.choices);
  return load;
}

// E[max(0, X - c)] for a binomial X, summed from c on in the direction in which the probabilities decrease.
double expected_beyond(std::int64_t n, double p, std::int64_t c) {
  const auto all = static_cast<double>(n), bound = static_cast<double>(c);
  if (c >= n || p <= 0) return 0;
  if (p >= 1) return all - bound;
  const double odds = p / (1 - p);
  const double ways = std::lgamma(all + 1) - std::lgamma(bound + 1) - std::lgamma(all - bound + 1);
  double at = std::exp(ways + bound * std::log(p) + (all - bound) * std::log1p(-p));
  const bool above = bound >= all * p;
  double sum = 0;
  for (double x = bound; above ? x < all : x > 0;) {
    at *= above ? (all - x) / (x + 1) * odds : x / (all - x + 1) / odds;
    x += above ? 1 : -1;
    const double term = at * std::abs(x - bound);
    sum += term;
    if (std::abs(x - bound) > 1 && term < 1e-12 * sum) break;
  }
  return above ? sum : all * p - bound + sum;
}

}  // namespace

// Experts arrive at exponentially distributed times, and the first `choices` of them are chosen. So an expert is chosen if fewer than
// `choices` others arrive before it. Its chance is an integral over the logarithm of its arrival time, computed by the trapezoidal rule,
// which converges as fast as the integrand falls off at both ends.
std::vector<double> chances_of(std::int64_t experts, std::int64_t choices, double skew) {
  const std::size_t count = size(experts), most = size(std::min(choices, experts));
  const std::vector<double> weights = weights_of(experts, skew);
  std::vector<double> chances(count), before((count + 1) * most), behind((count + 1) * most);
  constexpr double kStep = 0.25;
  const double start = std::log(1e-10 / std::accumulate(weights.begin(), weights.end(), 0.0));
  const double end = std::log(40 / weights[std::min(most, count - 1)]);
  for (double u = start; u < end; u += kStep) {
    const double time = std::exp(u);
    std::fill(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(most), 0.0);
    std::fill(behind.end() - static_cast<std::ptrdiff_t>(most), behind.end(), 1.0);  // of no experts, at most k have arrived
    before[0] = 1;
    for (std::size_t i = 0; i < count; ++i) {
      const double absent = std::exp(-weights[i] * time), there = -std::expm1(-weights[i] * time);
      for (std::size_t k = 0; k < most; ++k) {
        before[(i + 1) * most + k] = before[i * most + k] * absent + (k > 0 ? before[i * most + k - 1] * there : 0);
      }
    }
    for (std::size_t i = count; i-- > 0;) {
      const double absent = std::exp(-weights[i] * time), there = -std::expm1(-weights[i] * time);
      double in_time = 0;  // the probability that fewer than `most` others have arrived
      for (std::size_t k = 0; k < most; ++k) {
        in_time += before[i * most + k] * behind[(i + 1) * most + most - 1 - k];
        behind[i * most + k] =
            behind[(i + 1) * most + k] * absent + (k > 0 ? behind[(i + 1) * most + k - 1] * there : 0);
      }
      chances[i] += kStep * weights[i] * time * absent * in_time;
    }
  }
  for (double& chance : chances) chance = std::min(1.0, chance);
  return chances;
}

Load load_of(const Draw& draw, ExpertOrder order, std::int64_t room) {
  const auto load = [&](ExpertOrder of) {
    return draw.mean_rows() < kManyRows ? sampled(FewRows(draw), draw, of, room) : sampled(ManyRows(draw), draw, of, room);
  };
  Load made = load(order);
  if (order == ExpertOrder::by_rank || draw.skew == 0) return made;
  const Load most = load(ExpertOrder::by_rank);  // which samples may fall short of, if the skew is small
  made.busiest = std::min(made.busiest, most.busiest);
  made.almost_always = std::min(made.almost_always, most.almost_always);
  made.overflows = std::min(made.overflows, most.overflows);
  made.dropped = std::min(made.dropped, most.dropped);
  return made;
}

double share_beyond_slots(const Draw& draw, std::int64_t tokens, std::int64_t slots) {
  double beyond = 0;
  for (const double chance : chances_of(draw.experts, draw.choices, draw.skew))
    beyond += expected_beyond(tokens, chance, slots);
  return beyond / static_cast<double>(tokens * draw.choices);
}

}  // namespace moesh::forecast
