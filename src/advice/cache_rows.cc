#include "advice/cache_rows.h"

#include <algorithm>

#include <fmt/core.h>

#include "advice/planned_run.h"
#include "base/error.h"
#include "base/shell.h"
#include "base/text.h"
#include "config/settings.h"
#include "session/reopen.h"
#include "sharding/labels.h"
#include "sharding/lint_checks.h"

namespace moesh::advice {
namespace {

sharding::AxisList axes_of(const Labels& labels, const session::Session& session, const mesh::Mesh& mesh) {
  return sharding::distinct_axes(sharding::resolve_spec(labels, session.layout.rules, mesh));
}

bool has_own_rule(const sharding::Layout& layout) {
  return std::any_of(layout.rules.begin(), layout.rules.end(), [](const config::AxisRule& rule) {
    return rule.label == labels::cache_batch && (!rule.axes.empty() || rule.source != config::Source::base);
  });
}

}  // namespace

Keys with_rows_of_cache(const session::Session& session, const mesh::Mesh& mesh) {
  if (session.layout.states.empty() || has_own_rule(session.layout)) return {};
  sharding::AxisList taken;
  for (const sharding::LaidTensor& tensor : session.layout.states) taken = sharding::united(taken, axes_of(tensor.labels(), session, mesh));
  std::vector<std::string> spread;
  for (const sharding::AxisIndex axis : axes_of({labels::activation_batch}, session, mesh)) {
    if (mesh.axis(axis).size() > 1 && !sharding::holds(taken, axis)) spread.push_back(mesh.axis(axis).name);
  }
  return spread.empty() ? Keys{} : sharding::with_rules(session.layout, {{labels::cache_batch, {spread}}});
}

std::optional<Offer> spread_cache(const Request& request, const session::Session& session, const forecast::Forecast& forecast,
                                  session::DecodeStage stage) {
  const Keys keys = with_rows_of_cache(session, session.mesh);
  if (keys.empty()) return std::nullopt;
  try {
    const PlannedRun planned = plan_run(session::reopen(request.with(keys), session::Evenness::demanded, stage));
    const Offer offer = offer_of(keys, planned.session, planned.forecast);
    const bool helps = offer.seconds < forecast.seconds || offer.peak < forecast.memory.peak;
    return helps ? std::optional(offer) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string spread_words(const Offer& offer, const forecast::Forecast& before) {
  const double times = offer.tokens_per_second_per_device / before.tokens_per_second_per_device;
  return fmt::format(
      "{} spreads the rows of the KV cache over devices that hold copies now: {} a device at the peak, {} tokens/s a device, {:.2f} times "
      "as many.\n",
      shell_line(offer.keys), human_bytes(offer.peak), speed_words(offer), times);
}

}  // namespace moesh::advice
