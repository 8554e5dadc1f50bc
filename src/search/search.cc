#include "search/search.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include <fmt/core.h>

#include "advice/planned_run.h"
#include "base/error.h"
#include "base/progress.h"
#include "plan/print.h"
#include "session/reopen.h"

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

// A plan that was made, or the reason why it is not possible.
struct Made {
  std::optional<Found> found;
  std::string refusal;
};

// The results so far.
struct Ledger {
  explicit Ledger(Front empty) : front(std::move(empty)) {}

  Front front;
  std::optional<Found> nearest;
  std::int64_t planned = 0, refused = 0, untried = 0;
  std::string first_refusal;

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

// The number of plans that may still be made. It never falls below 0, however many threads take from it.
class Allowance {
 public:
  explicit Allowance(std::int64_t plans) : left_(plans) {}

  bool take() {
    std::int64_t left = left_;
    while (left > 0 && !left_.compare_exchange_weak(left, left - 1)) {
    }
    return left > 0;
  }
  std::int64_t left() const { return left_; }
  // As many of `wanted` plans as are left.
  std::int64_t take_up_to(std::int64_t wanted) {
    std::int64_t left = left_;
    while (!left_.compare_exchange_weak(left, left - std::min(wanted, left))) {
    }
    return std::min(wanted, left);
  }

 private:
  std::atomic<std::int64_t> left_;
};

// What a plan does, without the names of its axes: layouts of which this is the same differ in these names alone.
std::size_t work_of(const plan::Plan& plan) {
  plan::Plan nameless = plan;
  std::vector<mesh::Axis> axes = plan.mesh.axes();
  std::string sizes;
  int used = 0;
  for (mesh::Axis& axis : axes) {
    if (axis.size() > 1) sizes += fmt::format("{} x {}\n", axis.dcn, axis.ici);
    axis.name = axis.size() > 1 ? fmt::format("axis{}", used++) : "alone";
  }
  nameless.mesh = mesh::Mesh(std::move(axes));
  return std::hash<std::string>()(sizes + plan::to_text(nameless));
}

// The plans of one layout, as a grid: each row saves less for the backward pass than the one before, and each column has fewer tokens
// per pass. Along both, the time of a token grows and memory falls, except that memory may grow from one pass to several; the time of a
// step that is one pass falls with its tokens. Plans that were made therefore bound those beyond them. Only the time of a plan that saves
// everything bounds none that saves less: what is saved may have to be reduced for it on all devices.
class Grid {
 public:
  Grid(const std::vector<std::string>& request, Stage stage, std::int64_t usable_memory, const Candidate& candidate)
      : request_(request),
        stage_(stage),
        candidate_(candidate),
        usable_(usable_memory),
        last_{candidate.remats.size() - 1, candidate.passes.size() - 1},
        cells_(candidate.remats.size() * candidate.passes.size()) {}

  const Candidate& candidate() const { return candidate_; }

  // Makes the plan with all tokens in one pass and the least saved, by which layouts are compared.
  void plan_first() { plan({last_.remat, 0}); }
  double first_seconds() const { return at({last_.remat, 0}).found ? seconds_of({last_.remat, 0}) : std::numeric_limits<double>::max(); }

  // The same for layouts whose first plans do the same, and which have the same further plans.
  using Work = std::tuple<std::size_t, std::vector<Keys>, std::vector<Keys>>;
  std::optional<Work> first_work() const {
    if (!first_work_) return std::nullopt;
    return Work(*first_work_, candidate_.remats, candidate_.passes);
  }

  // Makes the plans that the front does not exclude, as long as more are allowed.
  void explore(Front front, Allowance& allowance) {
    if (last_.remat == 0) return explore({{0, 0}, last_}, front, allowance);
    explore({{0, 0}, {0, last_.pass}}, front, allowance);
    explore({{1, 0}, last_}, front, allowance);
  }

  // Adds the plans that were made since the last call to the ledger.
  void tell(Ledger& ledger) {
    for (const Made& made : news_) ledger.note(made);
    ledger.untried += std::exchange(untried_, 0);
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
    std::string refusal;
  };

  Cell& at(Place place) { return cells_[place.remat * candidate_.passes.size() + place.pass]; }
  const Cell& at(Place place) const { return cells_[place.remat * candidate_.passes.size() + place.pass]; }

  const std::optional<Found>& plan(Place place) {
    Cell& cell = at(place);
    if (cell.is_planned) return cell.found;
    cell.is_planned = true;
    const Keys keys = joined(joined(candidate_.keys, candidate_.remats[place.remat]), candidate_.passes[place.pass]);
    Made& made = news_.emplace_back();
    try {
      const advice::PlannedRun planned = advice::plan_run(session::reopen(joined(request_, keys), session::Evenness::demanded, stage_));
      if (!first_work_) first_work_ = work_of(planned.plan);
      made.found = cell.found = found_of(keys, planned.session, planned.forecast);
    } catch (const Error& error) {
      made.refusal = cell.refusal = error.parts().what;
    }
    return cell.found;
  }

  double seconds_of(Place place) const { return at(place).found ? at(place).found->seconds_per_token() : 0; }  // of a token

  // Lower bounds for the plans of a part, from the plans that were made.
  Bound bound_of(const Part& part) const {
    Bound bound{0, candidate_.state_bytes, 0};
    for (Place place{0, 0}; place.remat <= last_.remat; ++place.remat) {
      for (place.pass = 0; place.pass <= last_.pass; ++place.pass) {
        if (!at(place).found) continue;
        if (place.is_before(part.fastest) && (place.remat == 0) == (part.fastest.remat == 0))
          bound.seconds_per_token = std::max(bound.seconds_per_token, seconds_of(place));
        const bool is_alike = (part.fastest.pass > 0) == (place.pass > 0);  // some gradients are held apart over several passes
        if (!is_alike || !part.smallest.is_before(place)) continue;
        bound.peak = std::max(bound.peak, at(place).found->offer.peak);
        bound.seconds = std::max(bound.seconds, at(place).found->offer.seconds);
      }
    }
    return bound;
  }

  bool is_of_use(const Part& part, const Front& front) const {
    const Bound bound = bound_of(part);
    return bound.peak <= usable_ && !front.excludes(bound);
  }

  // Whether both corners are refused for the same reason, in the same words and numbers: so are those between them.
  bool is_refused_alike(const Part& part) const {
    const std::string& refusal = at(part.fastest).refusal;
    return !refusal.empty() && refusal == at(part.smallest).refusal;
  }

  // False if the plan may not be made any more.
  bool plan(Place place, Front& front, Allowance& allowance) {
    if (at(place).is_planned) return true;
    if (!allowance.take()) return false;
    const std::optional<Found>& found = plan(place);
    if (found && found->offer.fits()) front.add(*found);
    return true;
  }

  void explore(const Part& part, Front& front, Allowance& allowance) {
    for (const Place corner : {part.fastest, part.smallest}) {
      if (!is_of_use(part, front)) return;
      if (!plan(corner, front, allowance)) {
        untried_ += unplanned(part);
        return;
      }
    }
    if (part.fastest == part.smallest || !is_of_use(part, front) || is_refused_alike(part)) return;
    for (const Part& half : halves_of(part)) explore(half, front, allowance);
  }

  std::int64_t unplanned(const Part& part) const {
    std::int64_t count = 0;
    for (Place place = part.fastest; place.remat <= part.smallest.remat; ++place.remat) {
      for (place.pass = part.fastest.pass; place.pass <= part.smallest.pass; ++place.pass) count += at(place).is_planned ? 0 : 1;
    }
    return count;
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
  Stage stage_;
  const Candidate& candidate_;
  std::int64_t usable_;
  Place last_;
  std::vector<Cell> cells_;
  std::vector<Made> news_;
  std::optional<std::size_t> first_work_;  // of the plan that was made first
  std::int64_t untried_ = 0;
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
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    std::vector<Found> front = ledger_.front.found();
    return {front,
            beside_,
            front.empty() ? ledger_.nearest : std::nullopt,
            space_.least_state,
            space_.usable_memory,
            counts_,
            ledger_.first_refusal,
            took.count()};
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
    in_parallel("layout looked at", all, [](Grid& grid) { grid.plan_first(); }, [&](Grid& grid) {
      if (!is_new(grid)) return;
      fastest_first_.push_back(&grid);
      grid.tell(ledger_);
    });
    std::stable_sort(fastest_first_.begin(), fastest_first_.end(),
                     [](const Grid* a, const Grid* b) { return pace_of(a->first_seconds()) < pace_of(b->first_seconds()); });
  }

  void explore() {
    in_parallel("layout gone into", fastest_first_, [this](Grid& grid) { grid.explore(ledger_.front, allowance_); },
                [this](Grid& grid) { grid.tell(ledger_); });
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

Found found_of(const Keys& keys, const session::Session& session, const forecast::Forecast& forecast) {
  return {advice::offer_of(keys, session, forecast), session::layout_words(session), forecast.mfu, forecast.exposed, limits_of(forecast)};
}

Outcome search(const std::vector<std::string>& request, const Effort& effort, Stage stage) { return Search(request, effort, stage).run(); }

}  // namespace moesh::search
