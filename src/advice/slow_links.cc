#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include <fmt/core.h>

#include "advice/checks.h"
#include "advice/fit.h"
#include "base/text.h"
#include "cost/collective.h"
#include "cost/network.h"
#include "sharding/lint_checks.h"

namespace moesh::advice {
namespace {

using mesh::AxisIndex;
using sharding::Check;
using sharding::Finding;
using sharding::Severity;

constexpr double kTimeWorthSaying = 0.05;  // the share of a step that kernels wait
constexpr double kMostOfAStep = 2.0 / 3;   // the share from which on it is said even if no change helps

// What the devices along an axis exchange in a step.
struct Traffic {
  double far_bytes = 0;          // sent by a device over the slow link
  double exposed = 0;            // seconds that kernels wait
  double exposed_in_layers = 0;  // the part of it in layers
  std::set<std::string> causes;
};

// Identifies collectives that are alike in all layers.
using AlikeKey = std::tuple<std::string, std::string, std::string, graph::Phase>;

AlikeKey alike_key(const forecast::Sent& sent) { return {sent.kind, sent.axes, sent.operand, sent.phase}; }

// How often a step runs collectives that are alike. Layers have one body for all of them, or each has its own.
std::map<AlikeKey, std::int64_t> runs_alike(const forecast::Forecast& forecast) {
  std::map<AlikeKey, std::int64_t> runs;
  for (const forecast::Sent& sent : forecast.collectives) runs[alike_key(sent)] += sent.what.runs;
  return runs;
}

// The farthest link between the devices along the axis; null if they reach each other within a slice or a node.
const mesh::Link* far_link(const cost::Network& network, AxisIndex axis) {
  for (const cost::Level& level : network.group({axis})) {
    const mesh::Link& link = network.target().chip.links[level.link];
    if (link.domain == mesh::Domain::all) return &link;
  }
  return nullptr;
}

Traffic traffic_of(const StepView& view, const cost::Network& network, AxisIndex axis) {
  Traffic traffic;
  const std::int64_t once = view.step.program.microbatches;
  const std::map<AlikeKey, std::int64_t> runs = runs_alike(view.step.forecast);
  for (const forecast::Sent& sent : view.step.forecast.collectives) {
    if (!sharding::holds(sent.what.axes, axis)) continue;
    const bool is_in_layers = sent.phase != graph::Phase::update && runs.at(alike_key(sent)) > once;
    traffic.far_bytes += static_cast<double>(sent.what.runs) * cost::far_wire_bytes(sent.what.kind,
                                                                                    static_cast<double>(sent.what.operand_bytes),
                                                                                    network.group(sent.what.axes));
    traffic.exposed += sent.exposed;
    traffic.exposed_in_layers += is_in_layers ? sent.exposed : 0;
    traffic.causes.insert(sent.kind);
  }
  return traffic;
}

using Axes = std::vector<mesh::Axis>;

// Tries to move so many slices from the axis `from` to `to`; and the same with devices within slices moved the other way, so that both axes
// keep their sizes.
void exchange_slices(const mesh::Mesh& mesh, AxisIndex from, AxisIndex to, std::int64_t slices, std::vector<Keys>& tries) {
  const auto attempt = [&](Axes axes) { sharding::add_try(mesh::keys_between(mesh, mesh::Mesh(std::move(axes))), tries); };
  Axes moved = mesh.axes();
  moved[from].dcn /= slices;
  moved[to].dcn *= slices;
  attempt(moved);
  if (moved[to].ici % slices != 0) return;
  moved[to].ici /= slices;
  moved[from].ici *= slices;
  attempt(moved);
}

// The axes that may get an axis' devices.
std::vector<AxisIndex> others_of(const session::Session& session, AxisIndex axis) {
  std::vector<AxisIndex> others = sharding::axes_to_try(session.mesh, {"data", "fsdp", "expert", "context"}, session.shape.is_moe());
  std::erase(others, axis);
  return others;
}

// First all slices to another axis or devices within slices, then a part of the slices, larger parts first.
std::vector<Keys> ways_to_stay_near(const session::Session& session, AxisIndex axis) {
  const mesh::Mesh& mesh = session.mesh;
  const mesh::Axis& from = mesh.axis(axis);
  const std::vector<AxisIndex> others = others_of(session, axis);
  std::vector<Keys> tries;
  for (const AxisIndex to : others) {
    if (from.dcn > 1) exchange_slices(mesh, axis, to, from.dcn, tries);
    for (std::int64_t size = 1; size < from.ici; ++size) {
      if (from.ici % size == 0) tries.push_back(mesh::keys_between(mesh, mesh::with_moved(mesh, axis, to, from.ici / size)));
    }
  }
  for (std::int64_t slices = from.dcn - 1; slices > 1; --slices) {
    for (const AxisIndex to : others) {
      if (from.dcn % slices == 0) exchange_slices(mesh, axis, to, slices, tries);
    }
  }
  return tries;
}

}  // namespace

void find_slow_links(const StepView& view, std::vector<Finding>& findings) {
  const mesh::Mesh& mesh = view.session.mesh;
  const forecast::Forecast& forecast = view.step.forecast;
  if (view.session.target.chip.is_shared_machine()) return;  // its devices have no links
  const cost::Network network(mesh, view.session.target);
  for (std::size_t i = 0; i < mesh.axes().size(); ++i) {
    const auto index = static_cast<AxisIndex>(i);
    const mesh::Axis& axis = mesh.axis(index);
    const mesh::Link* link = axis.size() == 1 ? nullptr : far_link(network, index);
    if (link == nullptr) continue;
    const Traffic traffic = traffic_of(view, network, index);
    if (traffic.exposed_in_layers < kTimeWorthSaying * forecast.seconds) continue;
    Finding f{Severity::warning, Check::slow_link, axis.name,
              fmt::format("axis {} lies across {} ({}) and carries traffic in every layer", axis.name,
                          axis.dcn > 1 ? "slices" : "nodes", link->kind),
              fmt::format("mesh axis {}={}: {}", axis.name, axis.size(), join({traffic.causes.begin(), traffic.causes.end()}, ", ")),
              fmt::format("a device sends {} over {} in a step; kernels wait {} of {} for the axis", human_bytes(traffic.far_bytes),
                          link->kind, human_seconds(traffic.exposed), human_seconds(forecast.seconds))};
    f.tries = ways_to_stay_near(view.session, index);
    f.gain = sharding::Gain::speed;
    f.stays = has_target(view.session) && forecast.is_of_chips && forecast.fits() && traffic.exposed > kMostOfAStep * forecast.seconds;
    if (f.stays) f.fix = "no axis sizes that were tried are faster; `moesh search ...` also tries rules, strategies and remat policies";
    findings.push_back(std::move(f));
  }
}

}  // namespace moesh::advice
