#include <algorithm>
#include <set>

#include <fmt/core.h>

#include "base/text.h"
#include "sharding/labels.h"
#include "sharding/lint_checks.h"
#include "sharding/tolerance.h"

namespace moesh::sharding {
namespace {

std::string axis_words(const mesh::Axis& axis) { return fmt::format("{}={}", axis.name, axis.size()); }

// The settings that add the axis to every rule of the labels, as its last axis.
Keys with_axis(const Layout& layout, const std::set<std::string>& labels, const std::string& axis) {
  Rules changed;
  for (const std::string& label : labels) {
    RulesOfLabel rules = rules_of(layout, label);
    if (rules.empty()) rules.push_back({});
    for (std::vector<std::string>& axes : rules) {
      if (std::find(axes.begin(), axes.end(), axis) == axes.end()) axes.push_back(axis);
    }
    changed[label] = std::move(rules);
  }
  return labels.empty() ? Keys{} : with_rules(layout, changed);
}

}  // namespace

Keys with_batch_on(const Layout& layout, const std::string& axis) {
  std::set<std::string> labels;
  const auto see = [&](const LaidTensor& tensor) {
    for (const std::string& label : tensor.labels()) {
      if (labels::is_batch(label)) labels.insert(label);
    }
  };
  see(layout.input);
  for (const LaidTensor& tensor : layout.activations) see(tensor);
  return with_axis(layout, labels, axis);
}

void find_unused_axes(const Layout& layout, const LintOptions& options, Findings& findings) {
  const std::vector<const LaidTensor*> all = all_tensors(layout);
  for (std::size_t i = 0; i < layout.mesh.axes().size(); ++i) {
    const mesh::Axis& axis = layout.mesh.axes()[i];
    const auto index = static_cast<AxisIndex>(i);
    const auto has_use = [&](const LaidTensor* tensor) { return shards_a_dim(tensor->spec, index); };
    if (axis.size() == 1 || std::any_of(all.begin(), all.end(), has_use)) continue;
    Finding f{Severity::warning, Check::unused_axis, axis.name, fmt::format("axis {} shards nothing", axis.name),
              "mesh axis " + axis_words(axis), fmt::format("{} devices hold and compute the same", axis.size()),
              fmt::format("{}=1, or a rule that uses it", mesh::key_for(mesh::Level::ici, axis.name))};
    f.unused_axes = {axis.name};
    f.tries = given_away(layout, index, 1);
    add_try(with_batch_on(layout, axis.name), f.tries);
    add_tries(other_sets(options.sets), f.tries);
    findings.push_back(std::move(f));
  }
}

namespace {

constexpr std::size_t kMostOffenders = 5;
constexpr std::int64_t kLargeParts = 64;  // a parameter is worth a rule if it has at least 1/64 of the largest one's elements

// The labels of the dims that the axis could shard further.
std::vector<std::string> dims_for(const LaidTensor& tensor, AxisIndex axis, const mesh::Mesh& mesh) {
  std::vector<std::string> found;
  const Shape shard = shard_shape(tensor.shape, tensor.spec, mesh);
  for (std::size_t dim = 0; dim < shard.size(); ++dim) {
    const std::string& label = tensor.labels()[dim];
    if (label.empty() || labels::stacks_layers(label)) continue;
    if (shard[dim] > 1 && shard[dim] % mesh.axis(axis).size() == 0) found.push_back(label);
  }
  return found;
}

// Why an axis does not shard a tensor: no rule of its labels names the axis, or such a rule was passed over.
std::string cause_of(const LaidTensor& tensor, AxisIndex axis, const Layout& layout) {
  const std::string& name = layout.mesh.axis(axis).name;
  std::string cause = "no rule of its labels names it";
  for (const RuleStep& step : resolve(tensor.labels(), layout.rules, layout.mesh).steps) {
    const config::AxisRule& rule = layout.rules[step.rule];
    if (std::find(rule.axes.begin(), rule.axes.end(), name) == rule.axes.end()) continue;
    if (step.outcome == Outcome::axis_taken)
      return fmt::format("the rule of {} at {} is passed over whole, as {} is taken by {}", rule.label, rule.where,
                         layout.mesh.axis(step.blocking_axis).name, tensor.labels()[step.blocking_dim]);
    if (step.outcome == Outcome::dim_assigned)
      cause = fmt::format("the rule of {} at {} comes after {}, which settles the dim", rule.label, rule.where,
                          layout.rules[step.settling_rule].where);
  }
  return cause;
}

std::string offender_words(const LeftOut& left, const Layout& layout) {
  std::vector<std::string> words;
  for (const AxisIndex axis : left.axes) {
    const std::vector<std::string> dims = dims_for(*left.tensor, axis, layout.mesh);
    words.push_back(fmt::format("{} ({}; {})", layout.mesh.axis(axis).name, cause_of(*left.tensor, axis, layout),
                                dims.empty() ? "it divides no dim" : "it divides " + join(dims, ", ")));
  }
  return fmt::format("{} leaves out {}", left.tensor->path, join(words, " and "));
}

// The bytes of the offenders on a device, as they are and if the axes that they leave out sharded them.
std::string unspread_cost(const Unspread& found, const Layout& layout) {
  double now = 0, spread = 0;
  const auto add = [&](const LaidTensor& tensor, const AxisList& axes) {
    const auto bytes = static_cast<double>(bytes_per_device(tensor, layout.mesh));
    now += bytes;
    spread += bytes / static_cast<double>(shards(axes, layout.mesh));
  };
  for (const LeftOut& left : found.parameters) {
    add(*left.tensor, left.axes);
    for (const LaidTensor& moment : layout.moments) {
      if (moment.moment_of == left.tensor->path) add(moment, left.axes);
    }
  }
  return fmt::format("they and their moments take {} a device, spread over these axes {}", human_bytes(now), human_bytes(spread));
}

AxisList axes_left_out(const Unspread& found) {
  std::set<AxisIndex> axes;
  for (const LeftOut& left : found.parameters) axes.insert(left.axes.begin(), left.axes.end());
  return {axes.begin(), axes.end()};
}

// A small set of labels with one for each large parameter that leaves the axis out and has a dim for it.
std::set<std::string> labels_for(const Unspread& found, AxisIndex axis, const mesh::Mesh& mesh) {
  std::vector<std::vector<std::string>> dims;
  std::map<std::string, int> bearers;
  for (const LeftOut& left : found.parameters) {
    const bool is_small = elements(left.tensor->shape) * kLargeParts < elements(found.parameters.front().tensor->shape);
    if (!holds(left.axes, axis) || is_small) continue;
    dims.push_back(dims_for(*left.tensor, axis, mesh));
    for (const std::string& label : dims.back()) ++bearers[label];
  }
  std::set<std::string> labels;
  for (const std::vector<std::string>& of : dims) {
    const bool has_one = std::any_of(of.begin(), of.end(), [&](const std::string& label) { return labels.contains(label); });
    if (of.empty() || has_one) continue;
    labels.insert(*std::max_element(of.begin(), of.end(),
                                    [&](const std::string& a, const std::string& b) { return bearers[a] < bearers[b]; }));
  }
  return labels;
}

// First the axis on dims that it divides, then the axis at size 1 with its devices given to others, then other rule sets.
std::vector<Keys> ways_to_spread(const Unspread& found, const Layout& layout, const LintOptions& options) {
  std::map<AxisIndex, std::set<std::string>> labels;
  for (const AxisIndex axis : axes_left_out(found)) labels[axis] = labels_for(found, axis, layout.mesh);
  std::vector<Keys> tries;
  for (const auto& [axis, of] : labels) {
    add_try(with_axis(layout, of, layout.mesh.axis(axis).name), tries);
  }
  for (const AxisIndex axis : found.parameters.front().axes) {
    add_tries(given_away(layout, axis, 1), tries);
  }
  add_tries(other_sets(options.sets), tries);
  return tries;
}

}  // namespace

// Finds what a run refuses if the request gives sharding_tolerance.
void find_unspread(const Layout& layout, const LintOptions& options, Findings& findings) {
  const Unspread found = unspread(layout);
  if (found.parameters.empty() || found.share <= options.tolerance) return;
  std::vector<std::string> words;
  std::set<std::string> axes;
  for (const LeftOut& left : found.parameters) {
    if (words.size() < kMostOffenders) words.push_back(offender_words(left, layout));
    for (const AxisIndex axis : left.axes) axes.insert(layout.mesh.axis(axis).name);
  }
  const std::string names = join({axes.begin(), axes.end()}, ", ");
  Finding f{options.tolerance_is_asked ? Severity::error : Severity::warning, Check::sharding_tolerance, names,
            fmt::format("{:.1f} % of the parameters leave out an axis that could shard them ({}); sharding_tolerance allows {:.1f} %{}",
                        100 * found.share, names, 100 * options.tolerance,
                        options.tolerance_is_asked ? ", so `moesh train` refuses it" : ""),
            join(words, "; "), unspread_cost(found, layout), "a rule that lays one of these dims on the axis"};
  f.unused_axes = {axes.begin(), axes.end()};
  f.tries = ways_to_spread(found, layout, options);
  findings.push_back(std::move(f));
}

// Pipeline stages are laid out, so that their plan can be read, but they cannot be run.
void find_stages(const Layout& layout, Findings& findings) {
  const auto stage = layout.mesh.find("stage");
  if (!stage || layout.mesh.axis(*stage).size() == 1) return;
  Finding f{Severity::warning, Check::stages_not_run, "stage",
            fmt::format("axis stage={} makes pipeline stages, which are laid out, but not run yet", layout.mesh.size_of("stage")),
            "the mesh", "`moesh train` and `moesh verify` refuse this layout",
            "ici_pipeline_parallelism=1 dcn_pipeline_parallelism=1, and another axis for these devices"};
  if (layout.mesh.axis(*stage).dcn == 1) f.tries = given_away(layout, *stage, 1);
  findings.push_back(std::move(f));
}

}  // namespace moesh::sharding
