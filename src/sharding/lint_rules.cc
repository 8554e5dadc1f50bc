#include <algorithm>
#include <set>
#include <optional>

#include <fmt/core.h>

#include "base/text.h"
#include "config/known_rules.h"
#include "sharding/labels.h"
#include "sharding/lint_checks.h"

namespace moesh::sharding {
namespace {

// The user's own rules: not those that come with moesh and serve many models, nor copies of them in the user's files.
class OwnRules {
 public:
  explicit OwnRules(const Layout& layout) : known_(config::known_rules()) {
    for (std::size_t r = 0; r < layout.rules.size(); ++r) {
      const bool is_known = std::find(known_.begin(), known_.end(), layout.rules[r]) != known_.end();
      if (!is_known || is_on_command_line(layout.rules[r])) own_.push_back(r);
    }
  }

  const std::vector<std::size_t>& all() const { return own_; }

  // The label that was probably meant: one that comes with moesh and has just the last character less, or the nearest one of this model.
  std::string nearest_to(const std::string& label, const std::set<std::string>& borne) const {
    for (const config::AxisRule& rule : known_) {
      if (label.starts_with(rule.label) && label.size() == rule.label.size() + 1) return rule.label;
    }
    const std::vector<std::string> close = nearest(label, {borne.begin(), borne.end()}, 1);
    return close.empty() ? "" : close.front();
  }

  bool knows(const std::string& label) const { return has_rule(known_, label); }

 private:
  std::vector<config::AxisRule> known_;
  std::vector<std::size_t> own_;
};

std::set<std::string> labels_borne(const Layout& layout) {
  std::set<std::string> borne;
  for (const LaidTensor* tensor : all_tensors(layout)) borne.insert(tensor->labels().begin(), tensor->labels().end());
  borne.erase("");
  return borne;
}

std::string words_of_rule(const config::AxisRule& rule) { return fmt::format("{} -> [{}]", rule.label, join(rule.axes, ", ")); }

// Why a rule applies to no dim with its label; nothing if it applies to one.
std::optional<std::string> blocked_by(const Layout& layout, std::size_t rule) {
  std::optional<std::string> why;
  for (const LaidTensor* tensor : all_tensors(layout)) {
    if (tensor->constraint.each_dim_alone) continue;
    for (const RuleStep& step : resolve(tensor->labels(), layout.rules, layout.mesh).steps) {
      if (step.rule != rule) continue;
      if (step.outcome == Outcome::taken || step.outcome == Outcome::settled) return std::nullopt;
      if (why) continue;
      why = step.outcome == Outcome::dim_assigned
                ? fmt::format("the rule at {} settles the dim before", layout.rules[step.settling_rule].where)
                : fmt::format("axis {} is taken by {} of the same value", layout.mesh.axis(step.blocking_axis).name,
                              tensor->labels()[step.blocking_dim]);
    }
  }
  return why;
}

// Adds a try: the rules of the command line without these. If `instead` names a label, the rules are given to it.
void try_without(const Layout& layout, const std::vector<std::size_t>& rules, const std::string& instead, Finding& finding) {
  Rules changed;
  for (const std::size_t r : rules) {
    const config::AxisRule& rule = layout.rules[r];
    if (!is_on_command_line(rule)) return;
    RulesOfLabel& kept = changed.try_emplace(rule.label, rules_of(layout, rule.label)).first->second;
    kept.erase(std::find(kept.begin(), kept.end(), rule.axes));
    if (!instead.empty()) changed[instead].push_back(rule.axes);
  }
  add_try(with_rules(layout, changed), finding.tries);
}

Finding unborne(const config::AxisRule& rule, const std::string& meant) {
  Finding f{Severity::warning, Check::idle_rule, rule.label, fmt::format("rule {} never applies", words_of_rule(rule)), rule.where,
            "no tensor of this model bears the label", "correct the label, or remove the rule"};
  if (!meant.empty()) f.fix = fmt::format("the label {}, if it was meant", meant);
  return f;
}

}  // namespace

void find_idle_rules(const Layout& layout, Findings& findings) {
  const OwnRules own(layout);
  const std::set<std::string> borne = labels_borne(layout);
  std::map<std::string, std::vector<std::size_t>> by_cause;
  for (const std::size_t r : own.all()) {
    const config::AxisRule& rule = layout.rules[r];
    if (!borne.contains(rule.label)) {
      if (own.knows(rule.label)) continue;
      const std::string meant = own.nearest_to(rule.label, borne);
      findings.push_back(unborne(rule, meant));
      try_without(layout, {r}, borne.contains(meant) ? meant : "", findings.back());
      continue;
    }
    if (const auto why = blocked_by(layout, r)) by_cause[*why].push_back(r);
  }
  for (const auto& [why, rules] : by_cause) {
    std::vector<std::string> words, places;
    for (const std::size_t r : rules) {
      words.push_back(words_of_rule(layout.rules[r]));
      places.push_back(layout.rules[r].where);
    }
    findings.push_back({Severity::warning, Check::idle_rule, words.front(),
                        rules.size() == 1 ? fmt::format("rule {} never applies", words.front())
                                          : fmt::format("rules {} never apply", few_of(words)),
                        few_of(places), why, rules.size() == 1 ? "move it up, or remove it" : "move them up, or remove them"});
    try_without(layout, rules, "", findings.back());
  }
}

// Finds rules that name axes that the mesh lacks, which are ignored.
void find_absent_axes(const Layout& layout, Findings& findings) {
  const OwnRules own(layout);
  std::vector<std::string> rules, places;
  std::set<std::string> absent;
  Rules changed;
  bool some_are_whole = false, are_on_command_line = true;
  for (const std::size_t r : own.all()) {
    const config::AxisRule& rule = layout.rules[r];
    std::size_t missing = 0;
    for (const std::string& axis : rule.axes) {
      if (layout.mesh.find(axis)) continue;
      absent.insert(axis);
      ++missing;
    }
    if (missing == 0) continue;
    rules.push_back(words_of_rule(rule));
    places.push_back(rule.where);
    changed.try_emplace(rule.label, rules_of(layout, rule.label));
    are_on_command_line = are_on_command_line && is_on_command_line(rule);
    some_are_whole = some_are_whole || missing == rule.axes.size();
  }
  if (rules.empty()) return;
  const std::string axes = join({absent.begin(), absent.end()}, ", ");
  findings.push_back({Severity::warning, Check::absent_axis, axes,
                      fmt::format("{} {} {} {}, which the mesh lacks", rules.size() == 1 ? "rule" : "rules", few_of(rules),
                                  rules.size() == 1 ? "names" : "name", axes),
                      few_of(places),
                      some_are_whole ? "dims that bear the label are whole on every device" : "only its other axes shard the dim",
                      fmt::format("add {} to mesh_axes, or take it out of the rule", axes)});
  for (auto& [label, all] : changed) {
    for (std::vector<std::string>& of : all) std::erase_if(of, [&](const std::string& axis) { return absent.contains(axis); });
  }
  if (are_on_command_line) add_try(with_rules(layout, changed), findings.back().tries);
}

void find_unruled_labels(const Layout& layout, Findings& findings) {
  const OwnRules own(layout);
  if (own.all().empty()) return;
  std::set<std::string> ruled;
  for (const config::AxisRule& rule : layout.rules) ruled.insert(rule.label);
  std::map<std::string, std::string> unruled;
  for (const LaidTensor* tensor : all_tensors(layout)) {
    for (const std::string& label : tensor->labels()) {
      if (!label.empty() && !labels::stacks_layers(label) && !ruled.contains(label)) unruled.emplace(label, tensor->path);
    }
  }
  if (unruled.empty()) return;
  std::vector<std::string> names;
  for (const auto& [label, path] : unruled) names.push_back(label);
  findings.push_back({Severity::info, Check::unruled_label, names.front(), "no rule names the labels " + few_of(names),
                      fmt::format("e.g. {}", unruled.begin()->second), "dims that bear them are whole on every device",
                      fmt::format("- [{}, [AXIS]] in the rule set, if that was not meant", names.front())});
}

namespace {

// The label of the weight's dim that an activation's dim meets in a product.
std::string weight_label(const std::string& label) {
  constexpr std::string_view kPrefix = "activation_";
  return label.starts_with(kPrefix) ? label.substr(kPrefix.size()) : "";
}

bool any_has(const std::vector<LaidTensor>& tensors, const std::string& label, AxisIndex axis) {
  for (const LaidTensor& tensor : tensors) {
    for (std::size_t dim = 0; dim < tensor.labels().size(); ++dim) {
      if (tensor.labels()[dim] == label && holds(tensor.spec.dims[dim], axis)) return true;
    }
  }
  return false;
}

struct Competition {
  std::string loser, winner, losing_rule, winning_rule;
  AxisIndex axis = 0;
  std::vector<std::string> paths;
};

// Dims whose rule was passed over because another dim of the same value has the axis, although the weights with the label are sharded
// over that axis and no activation with it is.
std::map<std::string, Competition> competitions(const Layout& layout) {
  std::map<std::string, Competition> found;
  for (const LaidTensor& tensor : layout.activations) {
    if (tensor.constraint.each_dim_alone) continue;
    const Resolution resolution = resolve(tensor.labels(), layout.rules, layout.mesh, tensor.path);
    for (const RuleStep& step : resolution.steps) {
      const std::string& loser = tensor.labels()[step.dim];
      if (step.outcome != Outcome::axis_taken || layout.mesh.axis(step.blocking_axis).size() == 1) continue;
      if (!any_has(layout.parameters, weight_label(loser), step.blocking_axis)) continue;
      if (any_has(layout.activations, loser, step.blocking_axis)) continue;
      Competition& c = found[loser + " " + layout.mesh.axis(step.blocking_axis).name];
      c.loser = loser;
      c.winner = tensor.labels()[step.blocking_dim];
      c.axis = step.blocking_axis;
      c.losing_rule = layout.rules[step.rule].where;
      for (const RuleStep& other : resolution.steps) {
        const bool won = other.dim == step.blocking_dim && other.outcome == Outcome::taken;
        if (won) c.winning_rule = layout.rules[other.rule].where;
      }
      c.paths.push_back(tensor.path);
    }
  }
  return found;
}

// The settings that remove the axis from the label's rules.
Keys without_axis(const Layout& layout, const std::string& label, const std::string& axis) {
  RulesOfLabel rules = rules_of(layout, label);
  for (std::vector<std::string>& axes : rules) std::erase(axes, axis);
  return with_rules(layout, {{label, rules}});
}

}  // namespace

void find_competing_dims(const Layout& layout, Findings& findings) {
  for (const auto& [key, c] : competitions(layout)) {
    const std::string& axis = layout.mesh.axis(c.axis).name;
    const bool dispatch = c.loser == labels::activation_exp && axis == "expert";
    Finding f{Severity::warning, Check::competing_dims, key,
              fmt::format("dims {} and {} of one value both claim axis {}; {} wins ({} stands before {})", c.winner, c.loser, axis,
                          c.winner, c.winning_rule, c.losing_rule),
              few_of(c.paths),
              fmt::format("{} is whole while the weights' {} lies on {}: {}", c.loser, weight_label(c.loser), axis,
                          dispatch ? "expert parallelism becomes a gather of every expert's weights instead of an all-to-all"
                                   : "weights are gathered, or the value is moved twice"),
              fmt::format("move the rule of {} before that of {}, or drop {} from it", c.loser, c.winner, axis)};
    if (dispatch) f.tries.push_back({"moe_dispatch_no_expert_sharding=true"});
    add_try(without_axis(layout, c.winner, axis), f.tries);
    f.gain = Gain::speed;
    findings.push_back(std::move(f));
  }
}

namespace {

}  // namespace

// Finds rules that were passed over only because of an axis of size 1, if no later rule makes up for it.
void find_blocked_by_one(const Layout& layout, Findings& findings) {
  std::map<std::size_t, std::size_t> told;  // by rule: the index of its finding
  for (const LaidTensor& tensor : layout.parameters) {
    for (const RuleStep& step : resolve(tensor.labels(), layout.rules, layout.mesh).steps) {
      const config::AxisRule& rule = layout.rules[step.rule];
      const bool by_one = step.outcome == Outcome::axis_taken && layout.mesh.axis(step.blocking_axis).size() == 1;
      if (!by_one || shards(axes_in_mesh(rule, layout.mesh), layout.mesh) <= shards(tensor.spec.dims[step.dim], layout.mesh)) continue;
      if (!told.emplace(step.rule, findings.size()).second) continue;
      const std::string& axis = layout.mesh.axis(step.blocking_axis).name;
      Finding f{Severity::warning, Check::blocked_by_one, rule.label,
                fmt::format("the rule for {} was passed over for axis {}, which has size 1", rule.label, axis),
                fmt::format("{} (rule at {})", tensor.path, rule.where),
                fmt::format("dim {} stays whole: {} a device", step.dim,
                            human_bytes(bytes_per_device(tensor, layout.mesh))),
                fmt::format("add a second rule for {} without {}", rule.label, axis)};
      RulesOfLabel rules = rules_of(layout, rule.label);
      rules.push_back(rule.axes);
      std::erase(rules.back(), axis);
      add_try(with_rules(layout, {{rule.label, rules}}), f.tries);
      findings.push_back(std::move(f));
    }
  }
}

}  // namespace moesh::sharding
