#include "decode/planned.h"

#include <algorithm>
#include <cassert>
#include <map>

#include <fmt/core.h>

#include "base/error.h"
#include "config/batch_words.h"
#include "forecast/report.h"

namespace moesh::decode {
namespace {

constexpr std::int64_t kMostRows = std::int64_t{1} << 24;  // more than any machine has room for

// The peak memory of a step by its number of rows.
class Peaks {
 public:
  Peaks(const session::Session& session, const forecast::Forecast& planned) : session_(session), usable_(planned.usable_memory) {
    peaks_[planned.decoding->rows] = planned.memory.peak;
  }

  // Whether so many rows can be laid out.
  bool lie(std::int64_t rows) {
    if (peaks_.contains(rows)) return true;
    try {
      peaks_[rows] = plan_step(session::decoding(session_, rows, *session_.decodes)).forecast.memory.peak;
    } catch (const Error&) {
      return false;
    }
    return true;
  }
  bool fits(std::int64_t rows) { return lie(rows) && peaks_.at(rows) <= usable_; }

  // Where the line through the peaks of two numbers of rows reaches the usable memory.
  std::int64_t expected(std::int64_t a, std::int64_t b) const {
    const double growth = static_cast<double>(peaks_.at(b) - peaks_.at(a)) / static_cast<double>(b - a);
    if (growth <= 0) return kMostRows;
    const double rows = static_cast<double>(a) + static_cast<double>(usable_ - peaks_.at(a)) / growth;
    return static_cast<std::int64_t>(std::min(rows, static_cast<double>(kMostRows)));
  }

 private:
  const session::Session& session_;
  std::int64_t usable_;
  std::map<std::int64_t, std::int64_t> peaks_;
};

// The largest multiple of `unit` that fits, given that `unit` does: in growing steps away from the number that is expected, first down to
// one that fits, then up to one that does not, and by halves between them.
std::int64_t most_multiples(Peaks& peaks, std::int64_t unit) {
  const std::int64_t end = kMostRows / unit;
  std::int64_t fits = end < 2 || !peaks.fits(2 * unit) ? 1 : std::clamp<std::int64_t>(peaks.expected(unit, 2 * unit) / unit, 2, end);
  for (std::int64_t step = 1; fits > 1 && !peaks.fits(fits * unit); step *= 2) fits = std::max<std::int64_t>(1, fits - step);
  std::int64_t too_many = fits + 1;
  for (std::int64_t step = 1; too_many <= end && peaks.fits(too_many * unit); step *= 2) {
    fits = too_many;
    too_many = std::min(fits + step, end + 1);
  }
  while (too_many - fits > 1) {
    const std::int64_t middle = fits + (too_many - fits) / 2;
    (peaks.fits(middle * unit) ? fits : too_many) = middle;
  }
  return fits * unit;
}

}  // namespace

PlannedStep plan_step(const session::Session& session) {
  assert(session.decodes);
  const models::DecodeShape& shape = *session.decodes;
  const std::int64_t rows = session.batch.micro_rows;
  Program program = make_program(session.graph, session.layout, session::model_request(session, rows), session.target);
  plan::Plan plan = plan_of(program);
  forecast::Forecast made = forecast::forecast(plan, session.layout, session.target, {static_cast<double>(rows * shape.new_tokens), 0});
  made.decoding = forecast::decoding_of(session.layout, rows, shape.new_tokens, shape.cache_slots);
  return {std::move(program), std::move(plan), std::move(made)};
}

std::string fit_words(const session::Session& session) {
  try {
    return forecast::fit_words(plan_step(session).forecast);
  } catch (const Error& error) {
    return fmt::format("No step is planned: {}.\n", error.parts().what);
  }
}

forecast::MostRows most_rows(const session::Session& session, const forecast::Forecast& planned) {
  Peaks peaks(session, planned);
  const std::int64_t devices = session.mesh.devices();
  const auto most = [&](std::int64_t rows) { return forecast::MostRows{rows, config::rows_a_device(rows, devices)}; };
  if (planned.memory.of(forecast::Component::parameters) > planned.usable_memory) return most(0);
  // If rows lie on several devices, only multiples can be laid out, or fewer than those.
  std::int64_t together = 1;
  while (together < devices && (devices % together != 0 || !peaks.lie(devices + together))) ++together;
  if (peaks.fits(together)) return most(most_multiples(peaks, together));
  for (std::int64_t rows = together - 1; rows >= 1; --rows) {
    if (together % rows == 0 && peaks.fits(rows)) return most(rows);
  }
  return most(0);
}

}  // namespace moesh::decode
