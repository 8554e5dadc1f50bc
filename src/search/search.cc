#include "search/search.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/core.h>

#include "base/progress.h"
#include "search/space.h"

namespace moesh::search {
namespace {

constexpr std::size_t kVaried = 16;    // layouts that are also tried with one more change each
constexpr std::size_t kTogether = 16;  // layouts that are explored without results of each other, so that threads do not change the outcome

Limits limits_of(const forecast::Forecast& forecast) {
  std::map<std::string, double> seconds;
  for (const forecast::KernelTime& kernel : forecast.kernel_times) seconds[kernel.kind] += kernel.critical;
  for (const forecast::Sent& sent : forecast.collectives) seconds[fmt::format("{} over {}", sent.kind, sent.axes)] += sent.critical;
  if (forecast.host.waits > 0) seconds["waits for the host"] = forecast.host.waits;
  Limits limits;
  for (const auto& [what, time] : seconds) limits.emplace_back(what, time / forecast.seconds);
  std::stable_sort(limits.begin(), limits.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return limits;
}

// Calls `work` with 0 to count - 1 on `threads` threads. An exception in one call ends them all and is rethrown.
void for_each(std::size_t count, int threads, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  std::exception_ptr failure;
  std::mutex mutex;
  const auto run = [&] {
    try {
      for (std::size_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      next = count;
      const std::scoped_lock lock(mutex);
      if (failure == nullptr) failure = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(run);
  run();
  for (std::thread& thread : others) thread.join();
  if (failure != nullptr) std::rethrow_exception(failure);
}

double far_slower(Objective objective) { return objective == Objective::memory ? 4 : 1.25; }

// Rounds times to a thousandth, so that of layouts whose times hardly differ the simpler one stays first.
long pace_of(double seconds) { return std::lround(1000 * std::log(std::max(seconds, 1e-300))); }

// The results so far.
struct Ledger {
  Front front;
  std::optional<Found> nearest;
  std::int64_t planned = 0, refused = 0;

  void note(const std::optional<Found>& found) {
    ++planned;
    if (!found) {
      ++refused;
    } else if (found->offer.fits()) {
      front.add(*found);
    } else if (!nearest || found->offer.peak < nearest->offer.peak) {
      nearest = found;
    }
  }
};

// The plans of one layout, as a grid: each row saves less for the backward pass than the one before, and each column has fewer tokens
// per pass. Along both, time grows and memory falls, except that memory may grow from one pass to several. Plans that were made
// therefore bound those beyond them.
class Grid {
 public:
  Grid(const std::vector<std::string>& request, std::int64_t usable_memory, const Candidate& candidate)
      : request_(request),
        candidate_(candidate),
        usable_(usable_memory),
        last_{candidate.remats.size() - 1, candidate.passes.size() - 1},
        cells_(candidate.remats.size() * candidate.passes.size()) {}

  std::size_t size() const { return cells_.size(); }
  const Candidate& candidate() const { return candidate_; }

  // Makes the plan with all tokens in one pass and the least saved, by which layouts are compared.
  void plan_first() { plan({last_.remat, 0}); }
  double first_seconds() const { return seconds_of({last_.remat, 0}); }

  // Makes the plans that the front does not exclude, while `left` allows more.
  void explore(Front front, std::atomic<std::int64_t>& left) { explore({{0, 0}, last_}, front, left); }

  // Adds the plans that were made since the last call to the ledger.
  void tell(Ledger& ledger) {
    for (const std::optional<Found>& found : news_) ledger.note(found);
    news_.clear();
  }

 private:
  struct Place {
    std::size_t remat, pass;
    bool operator==(const Place&) const = default;
    bool is_before(const Place& other) const { return remat <= other.remat && pass <= other.pass; }
  };
  struct Part {
    Place fastest, smallest;
  };
  struct Cell {
    bool is_planned = false;
    std::optional<Found> found;
  };

  Cell& at(Place place) { return cells_[place.remat * candidate_.passes.size() + place.pass]; }
  const Cell& at(Place place) const { return cells_[place.remat * candidate_.passes.size() + place.pass]; }

  const std::optional<Found>& plan(Place place) {
    Cell& cell = at(place);
    if (cell.is_planned) return cell.found;
    cell.is_planned = true;
    const Keys keys = joined(joined(candidate_.keys, candidate_.remats[place.remat]), candidate_.passes[place.pass]);
    if (const std::optional<advice::Planned> planned = advice::try_keys(request_, keys)) cell.found = found_of(keys, *planned);
    news_.push_back(cell.found);
    return cell.found;
  }

  double seconds_of(Place place) const { return at(place).found ? at(place).found->seconds_per_token() : 0; }

  // Lower bounds for the plans of a part, from the plans that were made.
  Bound bound_of(const Part& part) const {
    Bound bound{0, candidate_.state_bytes};
    for (Place place{0, 0}; place.remat <= last_.remat; ++place.remat) {
      for (place.pass = 0; place.pass <= last_.pass; ++place.pass) {
        if (!at(place).found) continue;
        if (place.is_before(part.fastest)) bound.seconds_per_token = std::max(bound.seconds_per_token, seconds_of(place));
        const bool is_alike = (part.fastest.pass > 0) == (place.pass > 0);  // with several passes, gradients are held twice
        if (is_alike && part.smallest.is_before(place)) bound.peak = std::max(bound.peak, at(place).found->offer.peak);
      }
    }
    return bound;
  }

  bool is_of_use(const Part& part, const Front& front) const {
    const Bound bound = bound_of(part);
    return bound.peak <= usable_ && !front.excludes(bound);
  }

  void plan(Place place, Front& front, std::atomic<std::int64_t>& left) {
    if (at(place).is_planned) return;
    --left;
    const std::optional<Found>& found = plan(place);
    if (found && found->offer.fits()) front.add(*found);
  }

  void explore(const Part& part, Front& front, std::atomic<std::int64_t>& left) {
    for (const Place corner : {part.fastest, part.smallest}) {
      if (left <= 0 || !is_of_use(part, front)) return;
      plan(corner, front, left);
    }
    if (part.fastest == part.smallest || !is_of_use(part, front)) return;
    for (const Part& half : halves_of(part)) explore(half, front, left);
  }

  // The faster half first: more tokens per pass before fewer.
  static std::vector<Part> halves_of(const Part& part) {
    const auto& [fastest, smallest] = part;
    if (smallest.pass > fastest.pass) {
      const std::size_t middle = fastest.pass + (smallest.pass - fastest.pass) / 2;
      return {{fastest, {smallest.remat, middle}}, {{fastest.remat, middle + 1}, smallest}};
    }
    const std::size_t middle = fastest.remat + (smallest.remat - fastest.remat) / 2;
    return {{fastest, {middle, smallest.pass}}, {{middle + 1, fastest.pass}, smallest}};
  }

  const std::vector<std::string>& request_;
  const Candidate& candidate_;
  std::int64_t usable_;
  Place last_;
  std::vector<Cell> cells_;
  std::vector<std::optional<Found>> news_;
};

class Search {
 public:
  Search(const std::vector<std::string>& request, const Effort& effort)
      : request_(request),
        threads_(effort.threads),
        left_(effort.most_plans),
        space_(space_of(request)),
        ledger_{Front(far_slower(effort.objective)), {}} {
    // At most a third of the plans are spent on a first look, which compares all layouts before any is explored.
    const auto most = static_cast<std::size_t>(std::max<std::int64_t>(1, effort.most_plans / 3));
    counts_.too_large = space_.too_large;
    counts_.uneven = space_.uneven;
    counts_.layouts = static_cast<std::int64_t>(space_.candidates.size()) + space_.too_large + space_.uneven;
    if (space_.candidates.size() <= most) return;
    counts_.left = static_cast<std::int64_t>(space_.candidates.size() - most);
    space_.candidates.resize(most);
  }

  Outcome run() {
    const auto start = std::chrono::steady_clock::now();
    look_at(space_.candidates);
    std::vector<Candidate> variants = variants_of_best();
    counts_.layouts += static_cast<std::int64_t>(variants.size());
    look_at(variants);
    counts_.planned = ledger_.planned;
    counts_.refused = ledger_.refused;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    std::vector<Found> front = ledger_.front.found();
    return {front, front.empty() ? ledger_.nearest : std::nullopt, space_.least_state, space_.usable_memory, counts_, took.count()};
  }

 private:
  // Makes the first plan of each layout, then explores the layouts, the fastest first.
  void look_at(const std::vector<Candidate>& candidates) {
    std::vector<Grid> grids;
    grids.reserve(candidates.size());
    std::vector<Grid*> fastest_first;
    for (const Candidate& candidate : candidates) {
      fastest_first.push_back(&grids.emplace_back(request_, space_.usable_memory, candidate));
      counts_.settings += static_cast<std::int64_t>(grids.back().size());
    }
    left_ -= static_cast<std::int64_t>(grids.size());
    in_parallel("layout looked at", fastest_first, [](Grid& grid) { grid.plan_first(); });
    std::stable_sort(fastest_first.begin(), fastest_first.end(),
                     [](const Grid* a, const Grid* b) { return pace_of(a->first_seconds()) < pace_of(b->first_seconds()); });
    in_parallel("layout gone into", fastest_first, [this](Grid& grid) { grid.explore(ledger_.front, left_); });
    keep_best(fastest_first);
  }

  // Keeps the fastest layouts, and only one of several with the same time, since equivalent rule sets give layouts that take the same time.
  void keep_best(const std::vector<Grid*>& fastest_first) {
    std::optional<long> last;
    for (const Grid* grid : fastest_first) {
      if (best_.size() == kVaried) return;
      const long pace = pace_of(grid->first_seconds());
      if (last != pace) best_.push_back(grid->candidate());
      last = pace;
    }
  }

  // Works on kTogether grids at a time, and adds their results to the ledger after each batch of them.
  void in_parallel(const char* title, const std::vector<Grid*>& grids, const std::function<void(Grid&)>& work) {
    if (grids.empty()) return;
    Progress progress(title, static_cast<std::int64_t>(grids.size()));
    for (std::size_t begin = 0; begin < grids.size(); begin += kTogether) {
      const std::size_t end = std::min(begin + kTogether, grids.size());
      for_each(end - begin, threads_, [&](std::size_t i) { work(*grids[begin + i]); });
      for (std::size_t i = begin; i < end; ++i) grids[i]->tell(ledger_);
      progress.advance(static_cast<std::int64_t>(end));
    }
  }

  std::vector<Candidate> variants_of_best() {
    std::vector<Candidate> variants;
    for (const Candidate& best : std::exchange(best_, {})) {
      for (Candidate& variant : variants_of(best, request_)) variants.push_back(std::move(variant));
    }
    return variants;
  }

  const std::vector<std::string>& request_;
  int threads_;
  std::atomic<std::int64_t> left_;  // plans that may still be made
  Space space_;
  Ledger ledger_;
  Counts counts_;
  std::vector<Candidate> best_;
};

}  // namespace

Found found_of(const advice::Keys& keys, const advice::Planned& planned) {
  const forecast::Forecast& forecast = planned.step.forecast;
  return {advice::offer_of(keys, planned), session::layout_words(planned.session), forecast.mfu, forecast.exposed, limits_of(forecast)};
}

Outcome search(const std::vector<std::string>& request, const Effort& effort) { return Search(request, effort).run(); }

}  // namespace moesh::search
