#include "sharding/lint.h"

#include <algorithm>
#include <set>

#include <fmt/core.h>

#include "base/text.h"
#include "sharding/lint_checks.h"
#include "sharding/lint_experts.h"

namespace moesh::sharding {

std::vector<const LaidTensor*> all_tensors(const Layout& layout) {
  std::vector<const LaidTensor*> all{&layout.input};
  for (const LaidTensor& tensor : layout.parameters) all.push_back(&tensor);
  for (const LaidTensor& tensor : layout.activations) all.push_back(&tensor);
  return all;
}

Keys moved(const mesh::Mesh& mesh, AxisIndex from, std::int64_t ici, AxisIndex to) {
  const std::int64_t before = mesh.axis(from).ici;
  if (from == to || before % ici != 0 || before == ici) return {};
  return mesh::keys_between(mesh, mesh::with_moved(mesh, from, to, before / ici));
}

namespace {

bool has_experts(const Layout& layout) {
  return std::any_of(layout.parameters.begin(), layout.parameters.end(),
                     [](const LaidTensor& tensor) { return tensor.role == Role::expert_kernel; });
}

}  // namespace

std::vector<AxisIndex> axes_to_try(const mesh::Mesh& mesh, std::initializer_list<std::string_view> names, bool with_experts) {
  std::vector<AxisIndex> axes;
  for (const std::string_view name : names) {
    const auto axis = mesh.find(name);
    if (axis && (name != "expert" || with_experts)) axes.push_back(*axis);
  }
  return axes;
}

std::vector<Keys> given_away(const Layout& layout, AxisIndex from, std::int64_t ici) {
  std::vector<Keys> tries;
  for (const AxisIndex to : axes_to_try(layout.mesh, {"fsdp", "expert", "data", "context", "tensor"}, has_experts(layout)))
    add_try(moved(layout.mesh, from, ici, to), tries);
  return tries;
}

std::vector<Keys> other_sets(const std::vector<std::string>& sets) {
  std::vector<Keys> tries;
  for (const std::string& name : sets) tries.push_back({"custom_mesh_and_rule=" + name});
  return tries;
}

bool is_on_command_line(const config::AxisRule& rule) { return rule.source == config::Source::command_line; }

RulesOfLabel rules_of(const Layout& layout, const std::string& label) {
  RulesOfLabel axes;
  for (const config::AxisRule& rule : layout.rules) {
    if (rule.label == label) axes.push_back(rule.axes);
  }
  return axes;
}

Keys with_rules(const Layout& layout, const Rules& rules) {
  if (!layout.rule_set.empty()) return {};
  std::vector<std::string> words;
  std::set<std::string> told;
  const auto tell = [&](const std::string& label, const RulesOfLabel& of) {
    if (!told.insert(label).second) return;
    for (const std::vector<std::string>& axes : of) words.push_back(fmt::format("[{},[{}]]", label, join(axes, ",")));
  };
  for (const config::AxisRule& rule : layout.rules) {
    if (!is_on_command_line(rule)) continue;
    const auto replaced = rules.find(rule.label);
    tell(rule.label, replaced == rules.end() ? rules_of(layout, rule.label) : replaced->second);
  }
  for (const auto& [label, of] : rules) tell(label, of);
  return {"logical_axis_rules=[" + join(words, ",") + "]"};
}

namespace {

// If parameters leave out an axis, and nothing else uses it either, both findings have one cause. Only that of the parameters is kept if
// it is an error, else only that of the axis, if there is one for each of the axes that are left out.
void drop_what_is_told(Findings& findings) {
  const auto left = std::find_if(findings.begin(), findings.end(), [](const Finding& f) { return f.check == Check::sharding_tolerance; });
  if (left == findings.end()) return;
  const std::vector<std::string> axes = left->unused_axes;
  const auto is_unused = [&](const std::string& axis) { return is_told_unused(findings, Check::unused_axis, axis); };
  if (left->severity == Severity::error) {
    const auto is_left = [&](const std::string& axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); };
    std::erase_if(findings, [&](const Finding& f) { return f.check == Check::unused_axis && is_left(f.about); });
  } else if (std::all_of(axes.begin(), axes.end(), is_unused)) {
    findings.erase(left);
  }
}

}  // namespace

std::vector<Finding> lint(const Layout& layout, const LintOptions& options) {
  Findings findings;
  find_uneven(layout, options, findings);
  find_small_batch(layout, options, findings);
  find_unspread(layout, options, findings);
  find_unused_axes(layout, options, findings);
  drop_what_is_told(findings);
  find_competing_dims(layout, findings);
  find_blocked_by_one(layout, findings);
  find_idle_rules(layout, findings);
  find_absent_axes(layout, findings);
  find_unruled_labels(layout, findings);
  find_stages(layout, findings);
  const Findings of_experts = lint_experts(layout);
  findings.insert(findings.end(), of_experts.begin(), of_experts.end());
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) { return a.severity < b.severity; });
  return findings;
}

}  // namespace moesh::sharding
