#include "search/grid.h"

#include <functional>
#include <map>

#include <fmt/core.h>

#include "advice/planned_run.h"
#include "base/error.h"
#include "config/batch_words.h"
#include "plan/print.h"
#include "session/reopen.h"

namespace moesh::search {
namespace {

constexpr int kMostBetween = 5;  // batches that are tried between two of a series, for the largest that fits

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

}  // namespace

void Grid::explore(Front front, Allowance& allowance) {
  explore({{0, 0}, {0, last_.pass}}, front, allowance);
  if (last_.remat > 0) explore({{1, 0}, last_}, front, allowance);
  for (std::size_t remat = 0; remat <= last_.remat && !candidate_.open_rows.empty(); ++remat) end_series(remat, front, allowance);
}

const std::optional<Found>& Grid::plan(Place place) {
  Cell& cell = at(place);
  if (cell.is_planned) return cell.found;
  cell.is_planned = true;
  const Made& made = plan_keys(joined(joined(candidate_.keys, candidate_.remats[place.remat]), candidate_.passes[place.pass]));
  cell.refusal = made.refusal;
  return cell.found = made.found;
}

const Made& Grid::plan_keys(const Keys& keys) {
  Made& made = news_.made.emplace_back();
  try {
    const advice::PlannedRun planned = advice::plan_run(opened(keys));
    if (!first_work_) first_work_ = work_of(planned.plan);
    made.found = found_of(keys, planned.session, planned.forecast);
  } catch (const Error& error) {
    made.refusal = error.parts().what;
  }
  return made;
}

session::Session Grid::opened(const Keys& keys) const {
  return session::reopen(joined(request_, keys), session::Evenness::demanded, stage_);
}

Bound Grid::bound_of(const Part& part) const {
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

bool Grid::is_of_use(const Part& part, const Front& front) const {
  const Bound bound = bound_of(part);
  return bound.peak <= usable_ && !front.excludes(bound);
}

bool Grid::is_refused_alike(const Part& part) const {
  const std::string& refusal = at(part.fastest).refusal;
  return !refusal.empty() && refusal == at(part.smallest).refusal;
}

bool Grid::plan(Place place, Front& front, Allowance& allowance) {
  if (at(place).is_planned) return true;
  if (!allowance.take()) return false;
  const std::optional<Found>& found = plan(place);
  if (found && found->offer.fits()) front.add(*found);
  return true;
}

void Grid::explore(const Part& part, Front& front, Allowance& allowance) {
  for (const Place corner : {part.fastest, part.smallest}) {
    if (!is_of_use(part, front)) return;
    if (!plan(corner, front, allowance)) {
      news_.untried += unplanned(part);
      return;
    }
  }
  if (part.fastest == part.smallest || !is_of_use(part, front) || is_refused_alike(part)) return;
  for (const Part& half : halves_of(part)) explore(half, front, allowance);
}

std::int64_t Grid::unplanned(const Part& part) const {
  std::int64_t count = 0;
  for (Place place = part.fastest; place.remat <= part.smallest.remat; ++place.remat) {
    for (place.pass = part.fastest.pass; place.pass <= part.smallest.pass; ++place.pass) count += at(place).is_planned ? 0 : 1;
  }
  return count;
}

std::vector<Grid::Part> Grid::halves_of(const Part& part) {
  const auto& [fastest, smallest] = part;
  if (smallest.pass > fastest.pass) {
    const std::size_t middle = fastest.pass + (smallest.pass - fastest.pass) / 2;
    return {{fastest, {smallest.remat, middle}}, {{fastest.remat, middle + 1}, smallest}};
  }
  const std::size_t middle = fastest.remat + (smallest.remat - fastest.remat) / 2;
  return {{fastest, {middle, smallest.pass}}, {{middle + 1, fastest.pass}, smallest}};
}

void Grid::end_series(std::size_t remat, Front& front, Allowance& allowance) {
  Place small{remat, 0};
  while (small.pass <= last_.pass && !(at(small).found && at(small).found->offer.fits())) ++small.pass;
  if (small.pass == 0 || small.pass > last_.pass || !at({remat, small.pass - 1}).found) return;
  const Found& larger = *at({remat, small.pass - 1}).found;
  if (front.excludes({larger.seconds_per_token(), at(small).found->offer.peak, at(small).found->offer.seconds})) return;
  Batch fits{candidate_.open_rows[small.pass], at(small).found->offer.peak},
      too_many{candidate_.open_rows[small.pass - 1], larger.offer.peak};
  const std::int64_t devices = larger.offer.devices, unit = rows_that_lie_together(remat, devices);
  for (int tries = 0; tries < kMostBetween; ++tries) {
    const std::int64_t rows = rows_expected(fits, too_many) / unit * unit;
    if (rows <= fits.rows || rows >= too_many.rows) return;
    if (!allowance.take()) {
      ++news_.untried, ++news_.between;
      return;
    }
    ++news_.between;
    const std::optional<Found>& found = plan_keys(keys_of(remat, rows, devices)).found;
    if (!found) return;
    (found->offer.fits() ? fits : too_many) = {rows, found->offer.peak};
    if (found->offer.fits()) front.add(*found);
  }
}

std::int64_t Grid::rows_expected(const Batch& fits, const Batch& too_many) const {
  const double growth = static_cast<double>(too_many.peak - fits.peak) / static_cast<double>(too_many.rows - fits.rows);
  return fits.rows + static_cast<std::int64_t>(static_cast<double>(usable_ - fits.peak) / growth);
}

Keys Grid::keys_of(std::size_t remat, std::int64_t rows, std::int64_t devices) const {
  return joined(joined(candidate_.keys, candidate_.remats[remat]), {config::batch_key(config::rows_a_device(rows, devices))});
}

std::int64_t Grid::rows_that_lie_together(std::size_t remat, std::int64_t devices) const {
  const auto lie = [&](std::int64_t rows) {
    try {
      opened(keys_of(remat, rows, devices));
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  std::int64_t together = 1;
  while (together < devices && (devices % together != 0 || !lie(devices + together))) ++together;
  return together;
}

Found found_of(const Keys& keys, const session::Session& session, const forecast::Forecast& forecast) {
  return {advice::offer_of(keys, session, forecast), session::layout_words(session), forecast.mfu, forecast.exposed, limits_of(forecast)};
}

}  // namespace moesh::search
