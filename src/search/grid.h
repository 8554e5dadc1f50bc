// The plans of one layout of a search.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "search/front.h"
#include "search/space.h"

namespace moesh::search {

// A plan that was made, or the reason why it is not possible.
struct Made {
  std::optional<Found> found;
  std::string refusal;
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

// What a grid did since it was last asked.
struct News {
  std::vector<Made> made;
  std::int64_t untried = 0;  // plans that more allowance would have made
  std::int64_t between = 0;  // plans made or untried that are of no place of the grid: of batches between two of a series
};

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
  void plan_first() { plan(Place{last_.remat, 0}); }
  double first_seconds() const { return at({last_.remat, 0}).found ? seconds_of({last_.remat, 0}) : std::numeric_limits<double>::max(); }

  // The same for layouts whose first plans do the same, and which have the same further plans.
  using Work = std::tuple<std::size_t, std::vector<Keys>, std::vector<Keys>>;
  std::optional<Work> first_work() const {
    if (!first_work_) return std::nullopt;
    return Work(*first_work_, candidate_.remats, candidate_.passes);
  }

  // Makes the plans that the front does not exclude, as long as more are allowed.
  void explore(Front front, Allowance& allowance);

  News news() { return std::exchange(news_, {}); }

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

  const std::optional<Found>& plan(Place place);

  const Made& plan_keys(const Keys& keys);

  session::Session opened(const Keys& keys) const;

  double seconds_of(Place place) const { return at(place).found ? at(place).found->seconds_per_token() : 0; }  // of a token

  // Lower bounds for the plans of a part, from the plans that were made.
  Bound bound_of(const Part& part) const;

  bool is_of_use(const Part& part, const Front& front) const;

  // Whether both corners are refused for the same reason, in the same words and numbers: so are those between them.
  bool is_refused_alike(const Part& part) const;

  // False if the plan may not be made any more.
  bool plan(Place place, Front& front, Allowance& allowance);

  void explore(const Part& part, Front& front, Allowance& allowance);

  // Tries batches between the largest of a series that fits and its double, which does not, by where the line through their peaks
  // reaches the usable memory.
  void end_series(std::size_t remat, Front& front, Allowance& allowance);

  // Of all devices.
  struct Batch {
    std::int64_t rows, peak;
  };

  std::int64_t rows_expected(const Batch& fits, const Batch& too_many) const;

  Keys keys_of(std::size_t remat, std::int64_t rows, std::int64_t devices) const;

  // If rows lie on several devices, only multiples of some number can be laid out.
  std::int64_t rows_that_lie_together(std::size_t remat, std::int64_t devices) const;

  std::int64_t unplanned(const Part& part) const;

  // The faster half first: more tokens per pass before fewer.
  static std::vector<Part> halves_of(const Part& part);

  const std::vector<std::string>& request_;
  Stage stage_;
  const Candidate& candidate_;
  std::int64_t usable_;
  Place last_;
  std::vector<Cell> cells_;
  News news_;
  std::optional<std::size_t> first_work_;  // of the plan that was made first
};

// The time, memory and limits of a planned request.
Found found_of(const Keys& keys, const session::Session& session, const forecast::Forecast& forecast);

}  // namespace moesh::search
