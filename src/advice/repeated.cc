#include <algorithm>
#include <map>
#include <set>

#include <fmt/core.h>

#include "advice/checks.h"
#include "base/text.h"
#include "cost/network.h"
#include "forecast/timing.h"
#include "sharding/labels.h"
#include "sharding/lint_checks.h"
#include "train/offload.h"

namespace moesh::advice {
namespace {

using mesh::AxisIndex;
using sharding::Check;
using sharding::Finding;
using sharding::holds;
using sharding::Severity;

constexpr double kFlopsWorthSaying = 0.1;
constexpr double kMemoryWorthSaying = 0.1;   // the share of a device's usable memory
constexpr double kStateWorthSaying = 0.25;   // the share of a device's usable memory
constexpr std::size_t kMostOps = 5;

sharding::AxisList axes_of(const plan::Plan& plan, const plan::Instruction& instruction) {
  std::set<AxisIndex> axes;
  for (const plan::ViewId result : instruction.results) {
    const sharding::AxisList distinct = sharding::distinct_axes(plan.view(result).spec);
    axes.insert(distinct.begin(), distinct.end());
  }
  return {axes.begin(), axes.end()};
}

struct Op {
  std::string path;
  double flops = 0;
  sharding::AxisList axes;  // along which devices compute different parts
};

std::vector<Op> ops_of(const StepView& view) {
  const plan::Plan& plan = view.step.program.plan;
  const cost::Network network(plan.mesh, view.session.target);
  const std::vector<forecast::Timing> timings = forecast::timings_of(plan, network);
  const std::vector<std::int64_t> runs = plan::runs_of(plan);
  std::vector<Op> ops;
  for (std::size_t i = 0; i < timings.size(); ++i) {
    const double flops = timings[i].work.flops * static_cast<double>(runs[i]);
    if (flops > 0) ops.push_back({plan.instructions[i].path, flops, axes_of(plan, plan.instructions[i])});
  }
  return ops;
}

void add_work(const std::vector<Op>& ops, Repeated& repeated) {
  double all = 0, alike = 0;
  std::map<std::string, double> by_path;
  for (const Op& op : ops) {
    all += op.flops;
    if (holds(op.axes, repeated.axis)) continue;
    alike += op.flops;
    by_path[op.path] += op.flops;
  }
  if (all == 0) return;
  repeated.flops = alike / all;
  for (const auto& [path, flops] : by_path) repeated.ops.emplace_back(path, flops / all);
  std::stable_sort(repeated.ops.begin(), repeated.ops.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
}

bool has_moments_on_host(const StepView& view) {
  return train::keeps_moments_on_host(view.session.loaded.settings, view.session.target.chip);
}

// Calls body(tensor, is_parameter) for each parameter and moment in the devices' memory.
template <typename Body>
void for_state(const StepView& view, const Body& body) {
  const sharding::Layout& layout = view.session.layout;
  for (const sharding::LaidTensor& tensor : layout.parameters) body(tensor, true);
  if (has_moments_on_host(view)) return;
  for (const sharding::LaidTensor& tensor : layout.moments) body(tensor, false);
}

void add_values(const StepView& view, Repeated& repeated) {
  const plan::Plan& plan = view.step.program.plan;
  for (const forecast::Held& held : view.step.forecast.memory.held) {
    if (held.component != forecast::Component::saved_activations || held.view < 0) continue;
    if (!holds(plan.buffer_of(held.view).distinct, repeated.axis)) repeated.activations += held.bytes;
  }
  for_state(view, [&](const sharding::LaidTensor& tensor, bool) {
    if (!holds(sharding::distinct_axes(tensor.spec), repeated.axis)) repeated.state += bytes_per_device(tensor, view.session.layout.mesh);
  });
}

// Whether the axis shards any of the tensors.
bool is_any_on(const std::vector<sharding::LaidTensor>& tensors, AxisIndex axis) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [&](const sharding::LaidTensor& tensor) { return holds(sharding::distinct_axes(tensor.spec), axis); });
}

// The labels whose rules shard a tensor of the model over the axis.
std::string labels_on(const sharding::Layout& layout, AxisIndex axis) {
  std::set<std::string> labels;
  for (const sharding::LaidTensor* tensor : sharding::all_tensors(layout)) {
    for (std::size_t dim = 0; dim < tensor->labels().size(); ++dim) {
      if (holds(tensor->spec.dims[dim], axis)) labels.insert(tensor->labels()[dim]);
    }
  }
  return few_of({labels.begin(), labels.end()});
}

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

void find_repeated_work(const StepView& view, const Repeated& repeated, const std::vector<std::string>& sets,
                        std::vector<Finding>& findings) {
  const sharding::Layout& layout = view.session.layout;
  const mesh::Axis& axis = layout.mesh.axis(repeated.axis);
  const auto usable = static_cast<double>(view.step.forecast.usable_memory);
  const bool much_memory = static_cast<double>(repeated.activations) > kMemoryWorthSaying * usable;
  const bool much_work = repeated.flops >= kFlopsWorthSaying;
  if (!much_work && !much_memory) return;
  std::vector<std::string> ops;
  for (std::size_t i = 0; i < std::min(kMostOps, repeated.ops.size()); ++i)
    ops.push_back(fmt::format("{} ({})", repeated.ops[i].first, percent(repeated.ops[i].second)));
  std::vector<std::string> what;
  if (much_work) what.push_back(percent(repeated.flops) + " of the FLOPs");
  if (much_memory) what.push_back(human_bytes(repeated.activations) + " of saved activations");
  const std::string labels = labels_on(layout, repeated.axis);
  Finding f{Severity::warning, Check::repeated_work, axis.name,
            fmt::format("the {} devices along {} repeat {}: {}", axis.size(), axis.name, join(what, " and "),
                        labels.empty()                                 ? "no rule lays anything on it"
                        : is_any_on(layout.activations, repeated.axis) ? "rules lay only " + labels + " on it"
                                                                       : "rules lay only weights on it (" + labels + ")"),
            much_work ? join(ops, ", ") : "saved activations",
            much_work ? fmt::format("each step does for {} devices what {} could", layout.mesh.devices(),
                                    layout.mesh.devices() / axis.size())
                      : fmt::format("spread over them they would take {}", human_bytes(repeated.activations / axis.size()))};
  f.tries = sharding::given_away(layout, repeated.axis, 1);
  for (std::int64_t size = 2; size < axis.ici; size *= 2) {
    sharding::add_tries(sharding::given_away(layout, repeated.axis, size), f.tries);
  }
  sharding::add_try(sharding::with_batch_on(layout, axis.name), f.tries);
  sharding::add_tries(sharding::other_sets(sets), f.tries);
  f.gain = sharding::Gain::either;
  findings.push_back(std::move(f));
}

// Plain data parallelism is no fault, but if state fills much of the memory, other layouts may do better.
void find_repeated_state(const StepView& view, const Repeated& repeated, std::vector<Finding>& findings) {
  const mesh::Mesh& mesh = view.session.mesh;
  const mesh::Axis& axis = mesh.axis(repeated.axis);
  const auto usable = static_cast<double>(view.step.forecast.usable_memory);
  const bool is_told = !view.step.forecast.fits();  // by the finding that the step does not fit, with what makes it fit
  if (is_told || static_cast<double>(repeated.state) < kStateWorthSaying * usable) return;
  Finding f{Severity::info, Check::repeated_state, axis.name,
            fmt::format("the {} devices along {} have the same {} of {} each", axis.size(), axis.name, human_bytes(repeated.state),
                        has_moments_on_host(view) ? "parameters" : "parameters and moments"),
            fmt::format("mesh axis {}={}", axis.name, axis.size()),
            fmt::format("{} of a device's memory; spread over them {}", percent(static_cast<double>(repeated.state) / usable),
                        human_bytes(repeated.state / axis.size()))};
  if (axis.name == "data") f.tries.push_back({"shard_optimizer_over_data=true"});
  sharding::add_tries(sharding::given_away(view.session.layout, repeated.axis, 1), f.tries);
  f.gain = sharding::Gain::memory;
  findings.push_back(std::move(f));
}

// State that every device has all of, by the labels of it that no rule names.
struct Whole {
  std::int64_t bytes = 0;
  std::set<std::string> parameters;
  std::map<std::string, std::int64_t> of_labels;
};

Whole whole_state(const StepView& view) {
  const sharding::Layout& layout = view.session.layout;
  std::set<std::string> ruled;
  for (const config::AxisRule& rule : layout.rules) ruled.insert(rule.label);
  Whole whole;
  for_state(view, [&](const sharding::LaidTensor& tensor, bool is_parameter) {
    if (sharding::shards(sharding::distinct_axes(tensor.spec), layout.mesh) > 1) return;
    const std::int64_t bytes = bytes_per_device(tensor, layout.mesh);
    whole.bytes += bytes;
    bool has_own = false;
    for (const std::string& label : tensor.labels()) {
      if (label.empty() || ruled.contains(label) || labels::stacks_layers(label)) continue;
      whole.of_labels[label] += bytes;
      has_own = true;
    }
    if (has_own && is_parameter) whole.parameters.insert(tensor.path);
  });
  return whole;
}

// Whether the axis shards other parameters and would divide all dims with the label.
bool may_shard(const sharding::Layout& layout, AxisIndex axis, const std::string& label) {
  const std::int64_t size = layout.mesh.axis(axis).size();
  for (const sharding::LaidTensor& tensor : layout.parameters) {
    for (std::size_t dim = 0; dim < tensor.labels().size(); ++dim) {
      if (tensor.labels()[dim] == label && tensor.shape[dim] % size != 0) return false;
    }
  }
  return size > 1 && is_any_on(layout.parameters, axis);
}

void find_whole_state(const StepView& view, std::vector<Finding>& findings) {
  const sharding::Layout& layout = view.session.layout;
  const auto usable = static_cast<double>(view.step.forecast.usable_memory);
  const Whole whole = whole_state(view);
  const bool is_told = !view.step.forecast.fits();
  if (is_told || whole.of_labels.empty() || static_cast<double>(whole.bytes) < kMemoryWorthSaying * usable) return;
  std::vector<std::string> labels;
  for (const auto& [label, bytes] : whole.of_labels) labels.push_back(label);
  std::stable_sort(labels.begin(), labels.end(),
                   [&](const std::string& a, const std::string& b) { return whole.of_labels.at(a) > whole.of_labels.at(b); });
  Finding f{Severity::warning, Check::whole_weights, labels.front(),
            fmt::format("every device has all {} of {}: no rule names {}", human_bytes(whole.bytes),
                        has_moments_on_host(view) ? "some parameters" : "some parameters with their moments", few_of(labels)),
            few_of({whole.parameters.begin(), whole.parameters.end()}, 3),
            fmt::format("{} of a device's memory", percent(static_cast<double>(whole.bytes) / usable))};
  for (const std::string& label : labels) {
    for (std::size_t i = 0; i < layout.mesh.axes().size(); ++i) {
      if (may_shard(layout, static_cast<AxisIndex>(i), label))
        sharding::add_try(sharding::with_rules(layout, {{label, {{layout.mesh.axes()[i].name}}}}), f.tries);
    }
  }
  f.gain = sharding::Gain::memory;
  findings.push_back(std::move(f));
}

}  // namespace

std::vector<Repeated> repeated_along(const StepView& view) {
  const std::vector<Op> ops = ops_of(view);
  std::vector<Repeated> all;
  for (std::size_t i = 0; i < view.session.mesh.axes().size(); ++i) {
    if (view.session.mesh.axes()[i].size() == 1) continue;
    Repeated repeated;
    repeated.axis = static_cast<AxisIndex>(i);
    add_work(ops, repeated);
    add_values(view, repeated);
    all.push_back(std::move(repeated));
  }
  return all;
}

void find_repeated(const StepView& view, const std::vector<std::string>& sets, std::vector<Finding>& findings) {
  for (const Repeated& repeated : repeated_along(view)) {
    const std::string& axis = view.session.mesh.axis(repeated.axis).name;
    if (is_told_unused(findings, Check::unused_axis, axis)) continue;
    find_repeated_work(view, repeated, sets, findings);
    if (!is_told_unused(findings, Check::sharding_tolerance, axis)) find_repeated_state(view, repeated, findings);
  }
  find_whole_state(view, findings);
}

}  // namespace moesh::advice
