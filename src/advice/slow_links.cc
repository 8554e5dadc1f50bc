#include <algorithm>
#include <set>

#include <fmt/core.h>

#include "advice/checks.h"
#include "base/text.h"
#include "cost/collective.h"
#include "cost/network.h"
#include "forecast/report.h"

namespace moesh::advice {
namespace {

using mesh::AxisIndex;
using sharding::Finding;
using sharding::Severity;

constexpr double kTimeWorthSaying = 0.05;  // the share of a step that kernels wait

// What the devices along an axis exchange in loops over layers.
struct Traffic {
  double far_bytes = 0;  // sent by a device over the slow link
  double exposed = 0;    // seconds that kernels wait
  std::set<std::string> causes;
};

// The farthest link between the devices along the axis; null if they reach each other within a slice or a node.
const mesh::Link* far_link(const cost::Network& network, AxisIndex axis) {
  for (const cost::Level& level : network.group({axis})) {
    const mesh::Link& link = network.target().chip.links[level.link];
    if (link.domain == mesh::Domain::all && level.devices > 1) return &link;
  }
  return nullptr;
}

Traffic traffic_of(const StepView& view, const cost::Network& network, AxisIndex axis) {
  Traffic traffic;
  const std::int64_t once = view.step.program.microbatches;
  for (const forecast::Sent& sent : view.step.forecast.collectives) {
    if (sent.what.runs <= once || !sharding::holds(sent.what.axes, axis)) continue;
    traffic.far_bytes += static_cast<double>(sent.what.runs) * cost::far_wire_bytes(sent.what.kind,
                                                                                    static_cast<double>(sent.what.operand_bytes),
                                                                                    network.group(sent.what.axes));
    traffic.exposed += sent.exposed;
    traffic.causes.insert(sent.kind);
  }
  return traffic;
}

using Axes = std::vector<mesh::Axis>;

// Tries to put the axis `from` within slices and `to` between them; and the same with devices within slices moved the other way, so that
// both axes keep their sizes.
void exchange_slices(const mesh::Mesh& mesh, AxisIndex from, AxisIndex to, std::vector<Keys>& tries) {
  const std::int64_t slices = mesh.axis(from).dcn;
  if (from == to || slices == 1) return;
  const auto attempt = [&](Axes axes) { sharding::add_try(mesh::keys_between(mesh, mesh::Mesh(std::move(axes))), tries); };
  Axes moved = mesh.axes();
  moved[from].dcn = 1;
  moved[to].dcn *= slices;
  attempt(moved);
  if (moved[to].ici % slices != 0) return;
  moved[to].ici /= slices;
  moved[from].ici *= slices;
  attempt(moved);
}

std::vector<Keys> ways_to_stay_near(const session::Session& session, AxisIndex axis) {
  const mesh::Mesh& mesh = session.mesh;
  std::vector<Keys> tries;
  for (const std::string_view name : {"data", "fsdp", "expert", "context"}) {
    const auto to = mesh.find(name);
    if (!to || *to == axis || (name == "expert" && !session.shape.is_moe())) continue;
    exchange_slices(mesh, axis, *to, tries);
    for (std::int64_t size = 1; size < mesh.axis(axis).ici; ++size) {
      if (mesh.axis(axis).ici % size != 0) continue;
      tries.push_back(mesh::keys_between(mesh, mesh::with_moved(mesh, axis, *to, mesh.axis(axis).ici / size)));
    }
  }
  return tries;
}

}  // namespace

void find_slow_links(const StepView& view, std::vector<Finding>& findings) {
  const mesh::Mesh& mesh = view.session.mesh;
  const cost::Network network(mesh, view.session.target);
  for (std::size_t i = 0; i < mesh.axes().size(); ++i) {
    const auto index = static_cast<AxisIndex>(i);
    const mesh::Axis& axis = mesh.axis(index);
    const mesh::Link* link = axis.size() == 1 ? nullptr : far_link(network, index);
    if (link == nullptr) continue;
    const Traffic traffic = traffic_of(view, network, index);
    if (traffic.exposed < kTimeWorthSaying * view.step.forecast.seconds) continue;
    Finding f{Severity::warning, "slow-link", axis.name,
              fmt::format("axis {} lies across {} ({}) and carries traffic in every layer", axis.name,
                          axis.dcn > 1 ? "slices" : "nodes", link->kind),
              fmt::format("mesh axis {}={}: {}", axis.name, axis.size(), join({traffic.causes.begin(), traffic.causes.end()}, ", ")),
              fmt::format("a device sends {} over {} in a step; kernels wait {} of {} for the axis", human_bytes(traffic.far_bytes),
                          link->kind, forecast::seconds_words(traffic.exposed), forecast::seconds_words(view.step.forecast.seconds))};
    f.tries = ways_to_stay_near(view.session, index);
    f.gain = sharding::Gain::speed;
    findings.push_back(std::move(f));
  }
}

}  // namespace moesh::advice
