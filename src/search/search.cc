#include "search/search.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "base/progress.h"
#include "search/grid.h"

namespace moesh::search {
namespace {

constexpr std::size_t kVaried = 16;    // layouts that are also tried with one more change each
constexpr std::size_t kTogether = 16;  // layouts that are explored without results of each other, so that threads do not change the outcome

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
  try {
    for (int i = 1; i < threads; ++i) others.emplace_back(run);
  } catch (const std::system_error&) {  // no more threads are to be had: those that are there do the work
  }
  run();
  for (std::thread& thread : others) thread.join();
  if (failure != nullptr) std::rethrow_exception(failure);
}

double far_slower(Objective objective, Beside beside) {
  if (beside == Beside::step) return std::numeric_limits<double>::infinity();  // the fewest rows take the shortest step
  return objective == Objective::memory ? 4 : 1.25;
}

// Rounds times to a thousandth, so that of layouts whose times hardly differ the simpler one stays first.
long pace_of(double seconds) { return std::lround(1000 * std::log(seconds)); }

// The results so far.
struct Ledger {
  explicit Ledger(Front empty) : front(std::move(empty)) {}

  Front front;
  std::optional<Found> nearest;
  std::int64_t planned = 0, refused = 0, untried = 0;
  std::int64_t between = 0;  // plans that are not among those of the layouts: of batches between two of a series
  std::string first_refusal;

  void note(const News& news) {
    for (const Made& made : news.made) note(made);
    untried += news.untried;
    between += news.between;
  }

 private:
  void note(const Made& made) {
    ++planned;
    if (!made.found) {
      if (refused++ == 0) first_refusal = made.refusal;
    } else if (made.found->offer.fits()) {
      front.add(*made.found);
    } else if (!nearest || made.found->offer.peak < nearest->offer.peak) {
      nearest = made.found;
    }
  }
};

std::int64_t plans_of(const Candidate& candidate) { return std::ssize(candidate.remats) * std::ssize(candidate.passes); }

class Search {
 public:
  Search(const std::vector<std::string>& request, const Effort& effort, Stage stage)
      : request_(request),
        stage_(stage),
        threads_(effort.threads),
        allowance_(effort.most_plans),
        space_(space_of(request, stage)),
        beside_(stage && space_.has_open_batch && effort.objective == Objective::time ? Beside::step : Beside::memory),
        ledger_(Front(far_slower(effort.objective, beside_), beside_)) {
    // At most a third of the plans are spent on a first look, which compares all layouts before any is explored, and at most a quarter of
    // the others on a first look at variants of the best.
    const std::int64_t most = std::max<std::int64_t>(1, effort.most_plans / 3);
    counts_.too_large = space_.too_large;
    counts_.uneven = space_.uneven;
    counts_.layouts = static_cast<std::int64_t>(space_.candidates.size()) + space_.too_large + space_.uneven;
    leave_out_beyond(static_cast<std::size_t>(allowance_.take_up_to(std::min<std::int64_t>(most, std::ssize(space_.candidates)))),
                     space_.candidates);
  }

  Outcome run() {
    const auto start = std::chrono::steady_clock::now();
    look_at(space_.candidates);
    variants_ = variants_of_best();
    counts_.layouts += std::ssize(variants_);
    leave_out_beyond(static_cast<std::size_t>(allowance_.take_up_to(std::min(std::ssize(variants_), allowance_.left() / 4))), variants_);
    look_at(variants_);
    explore();
    counts_.planned = ledger_.planned;
    counts_.refused = ledger_.refused;
    counts_.untried += ledger_.untried;
    counts_.settings += ledger_.between;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    std::vector<Found> front = ledger_.front.found();
    return {front,
            beside_,
            front.empty() ? ledger_.nearest : std::nullopt,
            space_.least_state,
            space_.usable_memory,
            counts_,
            ledger_.first_refusal,
            took.count(),
            space_.has_open_batch};
  }

 private:
  void leave_out_beyond(std::size_t most, std::vector<Candidate>& candidates) {
    for (std::size_t i = most; i < candidates.size(); ++i) {
      const std::int64_t plans = plans_of(candidates[i]);
      ++counts_.left;
      counts_.settings += plans;
      counts_.untried += plans;
    }
    if (candidates.size() > most) candidates.resize(most);
  }

  // Makes the first plan of each layout, which is allowed, and keeps those that differ.
  void look_at(const std::vector<Candidate>& candidates) {
    std::vector<Grid*> all;
    for (const Candidate& candidate : candidates) all.push_back(&grids_.emplace_back(request_, stage_, space_.usable_memory, candidate));
    in_parallel(
        "layout looked at", all, [](Grid& grid) { grid.plan_first(); },
        [&](Grid& grid) {
          if (!is_new(grid)) return;
          fastest_first_.push_back(&grid);
          ledger_.note(grid.news());
        });
    std::stable_sort(fastest_first_.begin(), fastest_first_.end(),
                     [](const Grid* a, const Grid* b) { return pace_of(a->first_seconds()) < pace_of(b->first_seconds()); });
  }

  void explore() {
    in_parallel(
        "layout gone into", fastest_first_, [this](Grid& grid) { grid.explore(ledger_.front, allowance_); },
        [this](Grid& grid) { ledger_.note(grid.news()); });
  }

  // Of layouts with the same plans the first is explored, which is the simplest.
  bool is_new(const Grid& grid) {
    const std::optional<Grid::Work> work = grid.first_work();
    if (work && !works_.insert(*work).second) {
      ++counts_.same;
      ++ledger_.planned;
      return false;
    }
    counts_.settings += plans_of(grid.candidate());
    return true;
  }

  // The fastest layouts, and only one of several with the same time, since equivalent rule sets give layouts that take the same time.
  std::vector<const Candidate*> best() const {
    std::vector<const Candidate*> best;
    std::optional<long> last;
    for (const Grid* grid : fastest_first_) {
      if (best.size() == kVaried) break;
      const long pace = pace_of(grid->first_seconds());
      if (last != pace) best.push_back(&grid->candidate());
      last = pace;
    }
    return best;
  }

  // Works on kTogether grids at a time, and after each batch of them calls `tell` with one after the other, to add to the ledger.
  void in_parallel(const char* title, const std::vector<Grid*>& grids, const std::function<void(Grid&)>& work,
                   const std::function<void(Grid&)>& tell) {
    if (grids.empty()) return;
    Progress progress(title, static_cast<std::int64_t>(grids.size()));
    for (std::size_t begin = 0; begin < grids.size(); begin += kTogether) {
      const std::size_t end = std::min(begin + kTogether, grids.size());
      for_each(end - begin, threads_, [&](std::size_t i) { work(*grids[begin + i]); });
      for (std::size_t i = begin; i < end; ++i) tell(*grids[i]);
      progress.advance(static_cast<std::int64_t>(end));
    }
  }

  std::vector<Candidate> variants_of_best() {
    std::vector<Candidate> variants;
    if (stage_) return variants;
    for (const Candidate* one : best()) {
      for (Candidate& variant : variants_of(*one, request_)) variants.push_back(std::move(variant));
    }
    return variants;
  }

  const std::vector<std::string>& request_;
  Stage stage_;
  int threads_;
  Allowance allowance_;
  Space space_;
  Beside beside_;
  Ledger ledger_;
  Counts counts_;
  std::vector<Candidate> variants_;
  std::deque<Grid> grids_;
  std::vector<Grid*> fastest_first_;
  std::set<Grid::Work> works_;  // of the layouts so far
};

}  // namespace

Outcome search(const std::vector<std::string>& request, const Effort& effort, Stage stage) { return Search(request, effort, stage).run(); }

}  // namespace moesh::search
