#include "advice/advise.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include <fmt/core.h>

#include "advice/checks.h"
#include "advice/factorings.h"
#include "advice/fit.h"
#include "advice/remedies.h"
#include "base/error.h"
#include "base/text.h"
#include "forecast/report.h"
#include "mesh/context_order.h"
#include "sharding/lint.h"

namespace moesh::advice {
namespace {

using sharding::Check;
using sharding::Finding;
using sharding::Fix;
using sharding::Gain;
using sharding::Severity;

constexpr std::size_t kMostTries = 24;   // tries per finding
constexpr int kMostErrors = 3;           // errors that are mended besides, so that a fix can be planned
constexpr std::size_t kMostTriesOfOthers = 8;  // tries of each of them
constexpr std::size_t kMostFixes = 3;    // fixes offered per finding
constexpr double kFaster = 1.02;         // the least speed-up that is worth a warning
constexpr double kClearlyFaster = 1.05;  // the least speed-up that is worth a remark
constexpr double kMuchFaster = 1.2;      // the least speed-up that other axis sizes must bring
constexpr double kSmaller = 0.9;
constexpr double kHardlySlower = 0.98;
constexpr double kFarSlower = 0.5;       // the speed relative to the best fix below which a fix is dropped

// The findings about a layout, before any fix is tried.
struct Diagnosis {
  mesh::Mesh mesh;
  std::vector<Finding> findings;
  std::optional<forecast::Forecast> forecast;
};

std::vector<std::string> other_rule_sets(const session::Session& session) {
  std::vector<std::string> sets = rule_sets_to_try();
  std::erase(sets, session.layout.rule_set);
  if (!session.layout.rule_set.empty()) sets.emplace_back();
  return sets;
}

Finding of_memory(Severity severity, Check check, std::string what, const PlannedStep& step) {
  const forecast::Memory& memory = step.forecast.memory;
  return {severity,
          check,
          "the step",
          std::move(what),
          "at the peak, " + forecast::place_words(step.program.plan, memory.at),
          memory_words(memory)};
}

Finding does_not_fit(const session::Session& session, const PlannedStep& step) {
  const std::int64_t peak = step.forecast.memory.peak, usable = step.forecast.usable_memory;
  return of_memory(Severity::error, Check::does_not_fit,
                   fmt::format("a training step takes {} a device, {} has {} for it: {} are missing", human_bytes(peak),
                               session.target.chip.title, human_bytes(usable), human_bytes(peak - usable)),
                   step);
}

Finding fits_narrowly(const PlannedStep& step) {
  const forecast::Forecast& forecast = step.forecast;
  return of_memory(Severity::warning, Check::fits_narrowly,
                   fmt::format("a training step takes {} of {} a device, which is narrow.{}", human_bytes(forecast.memory.peak),
                               human_bytes(forecast.usable_memory), forecast::engine_words(forecast)),
                   step);
}

// For a layout of which no step is planned: whether parameters and moments alone are more than a device holds.
void find_too_large_state(const session::Session& session, std::vector<Finding>& findings) {
  const std::optional<std::int64_t> state = state_on(session, session.mesh);
  const std::int64_t usable = session.target.chip.usable_memory_bytes;
  if (!has_target(session) || !state || *state <= usable) return;
  findings.insert(findings.begin(), {Severity::error, Check::does_not_fit, "the state",
                                     fmt::format("parameters and moments take {} a device, {} has {}", human_bytes(*state),
                                                 session.target.chip.title, human_bytes(usable)),
                                     "all through the step", "gradients and activations come on top of it",
                                     "more devices for the parameters, or along an axis that shards them"});
}

Diagnosis diagnose_layout(const session::Session& session) {
  const config::Settings& settings = session.loaded.settings;
  Diagnosis made{session.mesh,
                 sharding::lint(session.layout, {session.batch.micro_rows, settings.real("sharding_tolerance"),
                                                 settings.is_given("sharding_tolerance"), other_rule_sets(session)}),
                 {}};
  if (session.mesh.size_of("stage") > 1) find_too_large_state(session, made.findings);
  return made;
}

// Whether a step can be planned, as far as the findings about the layout tell.
bool can_be_planned(const Diagnosis& of_layout) {
  return of_layout.mesh.size_of("stage") == 1 &&
         std::none_of(of_layout.findings.begin(), of_layout.findings.end(), [](const Finding& f) {
           return f.severity == Severity::error && f.check != Check::sharding_tolerance;
         });
}

// Adds the findings about the step that is planned.
void diagnose_step(const session::Session& session, Diagnosis& made) {
  try {
    PlannedStep step = plan_step(session);
    find_repeated({session, step}, other_rule_sets(session), made.findings);
    find_slow_links({session, step}, made.findings);
    find_waits({session, step}, made.findings);
    find_exposed_exchange({session, step}, made.findings);
    find_many_passes({session, step}, made.findings);
    find_dense_experts({session, step}, made.findings);
    find_wide_products({session, step}, made.findings);
    if (has_target(session) && !step.forecast.fits()) made.findings.insert(made.findings.begin(), does_not_fit(session, step));
    if (has_target(session) && step.forecast.fits_narrowly()) made.findings.insert(made.findings.begin(), fits_narrowly(step));
    made.forecast = std::move(step.forecast);
  } catch (const Error& error) {
    made.findings.push_back({Severity::error, Check::not_planned, "the step", error.parts().what, error.parts().where,
                             "no training step can be made of it", error.parts().fix});
    if (mesh::cannot_be_balanced(session.loaded.settings, session.mesh))
      made.findings.back().tries = {{"context_parallel_load_balance=false"}};
  }
}

Diagnosis diagnose(const session::Session& session) {
  Diagnosis made = diagnose_layout(session);
  if (can_be_planned(made)) diagnose_step(session, made);
  return made;
}

double tokens_a_step(const forecast::Forecast& forecast, const mesh::Mesh& mesh) {
  return std::round(forecast.tokens_per_second_per_device * forecast.seconds * static_cast<double>(mesh.devices()));
}

using Name = std::pair<Check, std::string>;  // a finding's check and what it is about

std::set<Name> errors_of(const Diagnosis& diagnosis) {
  std::set<Name> names;
  for (const Finding& f : diagnosis.findings) {
    if (f.severity == Severity::error) names.emplace(f.check, f.about);
  }
  return names;
}

class Trials {
 public:
  Trials(const Request& request, const Diagnosis& before, int most)
      : request_(request), before_(before), errors_(errors_of(before)), left_(most) {}

  // The axis that grows with these keys, which were tried before: the first that grows between slices, otherwise the first within them.
  std::string axis_that_grows(const Keys& keys) {
    const std::vector<mesh::Axis>& from = before_.mesh.axes();
    const std::vector<mesh::Axis>& to = changed(keys)->mesh.axes();
    std::string within;
    for (std::size_t i = 0; i < std::min(from.size(), to.size()); ++i) {
      if (to[i].dcn > from[i].dcn) return to[i].name;
      if (to[i].ici > from[i].ici && within.empty()) within = to[i].name;
    }
    return within;
  }

  // The tries that fix the finding, the best first. Where another error stands in the way of a plan, a try is planned with the fix of
  // an earlier finding or, if it has none, with tries of that error.
  std::vector<Fix> fixes_of(const Finding& finding) {
    std::vector<Fix> fixes;
    for (std::size_t i = 0; i < std::min(kMostTries, finding.tries.size()); ++i) {
      Keys keys = finding.tries[i];
      if (!mends(keys, finding)) continue;
      const bool needs_more = !is_told_of(keys);
      const bool holds_above = needs_more && !above_.empty() && ends_with_above(keys, finding);
      if (needs_more && !holds_above && !ends_with_more(keys, finding)) continue;
      Fix fix = fix_of(keys, *changed(keys));
      fix.holds_fix_above = holds_above;
      if (keeps_fit(fix) && pays(fix, finding)) fixes.push_back(std::move(fix));
    }
    keep_best(fixes);
    if (above_.empty() && finding.severity == Severity::error && !fixes.empty()) above_ = fixes.front().keys;
    if (finding.gain == Gain::much_speed)
      std::erase_if(fixes, [&](const Fix& fix) { return fix.faster * kMuchFaster < fixes.front().faster; });
    return fixes;
  }

 private:
  const std::optional<Diagnosis>& changed(const Keys& keys) {
    const auto [place, is_new] = tried_.try_emplace(join(keys, " "));
    if (!is_new || left_ <= 0) return place->second;
    const std::optional<session::Session> session = lay_out_keys(request_, keys, session::Evenness::reported);
    if (!session) return place->second;
    place->second = diagnose_layout(*session);
    if (!can_be_planned(*place->second)) return place->second;
    --left_;
    diagnose_step(*session, *place->second);
    return place->second;
  }

  // Whether all that can be told of the change is known: its plan or, of a layout with stages, none of which is planned, that layout.
  bool is_told_of(const Keys& keys) {
    const std::optional<Diagnosis>& after = changed(keys);
    return after && (after->forecast || after->mesh.size_of("stage") > 1);
  }

  bool ends_with_above(Keys& keys, const Finding& finding) {
    const Keys both = joined(above_, keys);
    if (!mends(both, finding) || !is_told_of(both)) return false;
    keys = both;
    return true;
  }

  // Adds tries of the errors that are left, one error after the other, until a step can be planned.
  bool ends_with_more(Keys& keys, const Finding& finding) {
    for (int errors = 0; errors < kMostErrors; ++errors) {
      if (is_told_of(keys)) return true;
      const std::optional<Keys> more = with_try_of_an_error(keys, finding);
      if (!more) return false;
      keys = *more;
    }
    return is_told_of(keys);
  }

  std::optional<Keys> with_try_of_an_error(const Keys& keys, const Finding& finding) {
    const std::optional<Diagnosis>& now = changed(keys);
    if (!now) return std::nullopt;
    for (const Finding& error : now->findings) {
      if (error.severity != Severity::error) continue;
      for (std::size_t i = 0; i < std::min(kMostTriesOfOthers, error.tries.size()); ++i) {
        const Keys both = joined(keys, error.tries[i]);
        if (mends(both, finding) && mends(both, error)) return both;
      }
    }
    return std::nullopt;
  }

  bool mends(const Keys& keys, const Finding& finding) {
    const std::optional<Diagnosis>& after = changed(keys);
    return after && mends(*after, finding);
  }

  // A change that leads to a step that does not fit is no worse if no step could be planned before.
  bool mends(const Diagnosis& after, const Finding& finding) const {
    for (const Finding& f : after.findings) {
      const Name name{f.check, f.about};
      if (name == Name{finding.check, finding.about} && finding.gain != Gain::much_speed) return false;
      const bool is_new = f.severity == Severity::error && !errors_.contains(name);
      if (is_new && (f.check != Check::does_not_fit || before_.forecast)) return false;
    }
    return true;
  }

  Fix fix_of(const Keys& keys, const Diagnosis& after) const {
    Fix fix{keys};
    if (!after.forecast) return fix;
    fix.peak = after.forecast->memory.peak;
    fix.usable = after.forecast->usable_memory;
    fix.seconds = after.forecast->seconds;
    fix.is_narrow = after.forecast->fits_narrowly();
    if (after.mesh.devices() != before_.mesh.devices()) fix.devices = after.mesh.devices();
    if (!before_.forecast) return fix;
    fix.faster = after.forecast->tokens_per_second_per_device / before_.forecast->tokens_per_second_per_device;
    fix.tokens = tokens_a_step(*after.forecast, after.mesh) / tokens_a_step(*before_.forecast, before_.mesh);
    return fix;
  }

  // Whether a step that fits still fits, and one that does not has not grown.
  bool keeps_fit(const Fix& fix) const {
    return !before_.forecast || fix.peak <= std::max(before_.forecast->memory.peak, fix.usable);
  }

  bool pays(const Fix& fix, const Finding& finding) const {
    const Gain gain = finding.gain;
    if (gain == Gain::none) return true;
    if (!before_.forecast || fix.peak == 0) return false;
    const bool is_faster = fix.faster >= (finding.severity == Severity::info ? kClearlyFaster : kFaster);
    const bool is_smaller = static_cast<double>(fix.peak) < kSmaller * static_cast<double>(before_.forecast->memory.peak);
    if (gain == Gain::speed) return is_faster;
    if (gain == Gain::much_speed) return fix.faster >= kMuchFaster;
    return (is_smaller && fix.faster >= kHardlySlower) || (gain == Gain::either && is_faster);
  }

  static bool keeps_batch(const Fix& fix) { return std::abs(fix.tokens - 1) < 0.01; }

  // Speeds that differ by less than a hundredth count as equal, so that the likelier try stays first.
  static double rank_of(const Fix& fix) {
    const double speed = fix.faster > 0 ? fix.faster : fix.seconds > 0 ? 1 / fix.seconds : 0;
    return speed > 0 ? std::round(std::log(speed) / std::log(1.01)) : -std::numeric_limits<double>::infinity();
  }

  // Sorts by whether a fix fits, then by whether it keeps the batch, then by speed. Of fixes with equal results only the first is kept,
  // none that makes the step slower if another does not, and none that is far slower than the best.
  void keep_best(std::vector<Fix>& fixes) const {
    const auto fits = [](const Fix& fix) { return fix.peak > 0 && fix.peak <= fix.usable; };
    std::stable_sort(fixes.begin(), fixes.end(), [&](const Fix& a, const Fix& b) {
      return std::make_tuple(fits(a), keeps_batch(a), rank_of(a)) > std::make_tuple(fits(b), keeps_batch(b), rank_of(b));
    });
    const auto are_alike = [](const Fix& a, const Fix& b) { return a.peak == b.peak && a.seconds == b.seconds && a.peak > 0; };
    fixes.erase(std::unique(fixes.begin(), fixes.end(), are_alike), fixes.end());
    if (!fixes.empty() && fits(fixes.front())) std::erase_if(fixes, [&](const Fix& fix) { return !fits(fix); });
    if (std::any_of(fixes.begin(), fixes.end(), [](const Fix& fix) { return fix.faster >= 1; }))
      std::erase_if(fixes, [](const Fix& fix) { return fix.faster < kHardlySlower; });
    std::erase_if(fixes, [&](const Fix& fix) { return fix.seconds * kFarSlower > fixes.front().seconds && keeps_batch(fix); });
    if (fixes.size() > kMostFixes) fixes.resize(kMostFixes);
  }

  const Request& request_;
  const Diagnosis& before_;
  std::set<Name> errors_;
  int left_;  // plans that may still be made
  Keys above_;  // the fix of the first error that has one
  std::map<std::string, std::optional<Diagnosis>> tried_;
};

// The fixes of a step that does not fit are not among its tries, but searched for by kinds of changes.
void add_remedies(const Request& request, const session::Session& session, const forecast::Forecast& forecast,
                  Finding& finding) {
  const Remedies remedies = remedies_of(request, session, forecast);
  for (const Offer& offer : remedies.offers) {
    if (offer.is_narrow && forecast.fits()) continue;
    Fix fix{offer.keys, offer.peak, offer.usable, offer.seconds,
            offer.tokens_per_second_per_device / forecast.tokens_per_second_per_device};
    fix.is_narrow = offer.is_narrow;
    fix.rounds = offer.rounds;
    if (offer.devices != session.mesh.devices()) fix.devices = offer.devices;
    fix.tokens = static_cast<double>(offer.tokens) / tokens_a_step(forecast, session.mesh);
    finding.fixes.push_back(std::move(fix));
  }
  if (!remedies.fits_here && !forecast.fits()) finding.cost += ". " + nearest_words(remedies);
}

// A step that waits, and an axis that lies across slow links, may have one cause, of which the latter says more. The former is kept if its
// fix is much faster, and alone if nothing helps the latter.
void keep_telling(std::vector<Finding>& findings) {
  const auto speed_of = [&](Check check) {
    double most = 0;
    for (const Finding& f : findings) {
      if (f.check == check && !f.fixes.empty()) most = std::max(most, f.fixes.front().faster);
    }
    return most;
  };
  const double waits = speed_of(Check::waits), links = speed_of(Check::slow_link);
  if (links * kMuchFaster >= waits) std::erase_if(findings, [](const Finding& f) { return f.check == Check::waits; });
  else std::erase_if(findings, [](const Finding& f) { return f.check == Check::slow_link && f.fixes.empty(); });
}

}  // namespace

Advice advise(const Request& request, const session::Session& session) {
  Diagnosis before = diagnose(session);
  std::stable_sort(before.findings.begin(), before.findings.end(),
                   [](const Finding& a, const Finding& b) { return a.severity < b.severity; });
  Trials trials(request, before, most_trials(session));
  Advice advice;
  for (const Finding& found : before.findings) {
    Finding finding = found;
    if (before.forecast && (finding.check == Check::does_not_fit || finding.check == Check::fits_narrowly))
      add_remedies(request, session, *before.forecast, finding);
    // Other programs have no such tolerance, so there only what costs counts.
    if (request.is_translated() && finding.check == Check::sharding_tolerance) finding.gain = Gain::either;
    if (!finding.tries.empty()) finding.fixes = trials.fixes_of(finding);
    if (finding.gain != Gain::none && finding.fixes.empty()) {
      if (!finding.stays) continue;
      finding.severity = Severity::info;
    }
    if (finding.check == Check::slow_link && !finding.fixes.empty())
      finding.what += fmt::format("; {} had better lie there", trials.axis_that_grows(finding.fixes.front().keys));
    advice.findings.push_back(std::move(finding));
  }
  keep_telling(advice.findings);
  std::stable_sort(advice.findings.begin(), advice.findings.end(),
                   [](const Finding& a, const Finding& b) { return a.severity < b.severity; });
  advice.forecast = std::move(before.forecast);
  return advice;
}

}  // namespace moesh::advice
