#include "sharding/lint.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/core.h>

#include "base/json.h"
#include "base/terminal.h"
#include "base/text.h"
#include "sharding/lint_experts.h"

namespace moesh::sharding {
namespace {

using Findings = std::vector<Finding>;

std::vector<const LaidTensor*> all_tensors(const Layout& layout) {
  std::vector<const LaidTensor*> all{&layout.input};
  for (const LaidTensor& tensor : layout.parameters) all.push_back(&tensor);
  for (const LaidTensor& tensor : layout.activations) all.push_back(&tensor);
  return all;
}

std::string bytes_words(std::int64_t bytes) { return human_bytes(static_cast<double>(bytes)); }

bool shards_over(const Spec& spec, AxisIndex axis) {
  return std::any_of(spec.dims.begin(), spec.dims.end(),
                     [&](const AxisList& axes) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); });
}

// The user's own rules, as opposed to those that come with moesh and serve many models.
bool is_own(const config::AxisRule& rule) { return !rule.where.starts_with("configs/"); }

std::set<std::string> labels_borne(const Layout& layout) {
  std::set<std::string> borne;
  for (const LaidTensor* tensor : all_tensors(layout)) borne.insert(tensor->labels().begin(), tensor->labels().end());
  borne.erase("");
  return borne;
}

// Rules that took or settled a dim of any tensor.
std::set<std::size_t> rules_that_act(const Layout& layout) {
  std::set<std::size_t> acting;
  for (const LaidTensor* tensor : all_tensors(layout)) {
    for (const RuleStep& step : resolve(tensor->labels(), layout.rules, layout.mesh).steps) {
      if (step.outcome == Outcome::taken || step.outcome == Outcome::settled) acting.insert(step.rule);
    }
  }
  return acting;
}

void find_idle_rules(const Layout& layout, Findings& findings) {
  const std::set<std::string> borne = labels_borne(layout);
  const std::set<std::size_t> acting = rules_that_act(layout);
  std::size_t idle_builtin = 0;
  for (std::size_t r = 0; r < layout.rules.size(); ++r) {
    const config::AxisRule& rule = layout.rules[r];
    if (acting.contains(r)) continue;
    if (!is_own(rule)) {
      ++idle_builtin;
      continue;
    }
    const bool no_bearer = !borne.contains(rule.label);
    findings.push_back({Severity::warning, "idle-rule",
                        fmt::format("rule {} -> [{}] never applies", rule.label, join(rule.axes, ", ")), rule.where,
                        no_bearer ? "no tensor of this model bears the label"
                                  : "an earlier rule settles every dim that bears the label",
                        no_bearer ? "correct the label, or remove the rule" : "move it up, or remove it"});
  }
  if (idle_builtin == 0) return;
  findings.push_back({Severity::info, "idle-rule",
                      fmt::format("{} of the rule set {} not apply to this model",
                                  counted(static_cast<std::int64_t>(idle_builtin), "rule"),
                                  idle_builtin == 1 ? "does" : "do"),
                      "the rule set", "nothing: they serve other models, decoding or fallbacks", ""});
}

// An axis that the mesh lacks does not exist for a rule.
void find_absent_axes(const Layout& layout, Findings& findings) {
  std::set<std::string> of_the_set;
  for (const config::AxisRule& rule : layout.rules) {
    std::vector<std::string> absent;
    for (const std::string& axis : rule.axes) {
      if (!layout.mesh.find(axis)) absent.push_back(axis);
    }
    if (absent.empty()) continue;
    if (!is_own(rule)) {
      of_the_set.insert(absent.begin(), absent.end());
      continue;
    }
    findings.push_back({Severity::warning, "absent-axis",
                        fmt::format("rule {} -> [{}] names {}, which the mesh lacks", rule.label, join(rule.axes, ", "),
                                    join(absent, ", ")),
                        rule.where,
                        absent.size() == rule.axes.size() ? "dims that bear the label are whole on every device"
                                                          : "only its other axes shard the dim",
                        fmt::format("add {} to mesh_axes, or take it out of the rule", absent.front())});
  }
  if (of_the_set.empty()) return;
  findings.push_back({Severity::info, "absent-axis",
                      fmt::format("rules of the rule set name {}, which its mesh lacks",
                                  join({of_the_set.begin(), of_the_set.end()}, ", ")),
                      "the rule set", "nothing: they are as if those axes were not named", ""});
}

// Stages are laid out, so that a plan can be read, but no run is made over them.
void find_stages(const Layout& layout, Findings& findings) {
  if (layout.mesh.size_of("stage") == 1) return;
  findings.push_back({Severity::warning, "stages-not-run",
                      fmt::format("axis stage={} makes pipeline stages, which are laid out, but not run yet",
                                  layout.mesh.size_of("stage")),
                      "the mesh", "`moesh train` and `moesh verify` refuse this layout",
                      "ici_pipeline_parallelism=1 dcn_pipeline_parallelism=1, and another axis for these devices"});
}

void find_unruled_labels(const Layout& layout, Findings& findings) {
  std::set<std::string> ruled;
  for (const config::AxisRule& rule : layout.rules) ruled.insert(rule.label);
  std::map<std::string, std::vector<std::string>> unruled;
  for (const LaidTensor* tensor : all_tensors(layout)) {
    for (const std::string& label : tensor->labels()) {
      if (!label.empty() && !ruled.contains(label)) unruled[label].push_back(tensor->path);
    }
  }
  if (unruled.empty()) return;
  const bool own_rules = std::any_of(layout.rules.begin(), layout.rules.end(), is_own);
  std::vector<std::string> labels;
  for (const auto& [label, paths] : unruled) labels.push_back(label);
  findings.push_back(
      {Severity::info, "unruled-label", "no rule names the labels " + join(labels, ", "),
       fmt::format("e.g. {}", unruled.begin()->second.front()), "dims that bear them are whole on every device",
       own_rules ? fmt::format("- [{}, [AXIS]] in the rule set, if that was not meant", labels.front()) : ""});
}

struct AxisUse {
  bool parameters = false;
  bool activations = false;
};

AxisUse use_of(const Layout& layout, AxisIndex axis) {
  const auto any = [&](const std::vector<LaidTensor>& tensors) {
    return std::any_of(tensors.begin(), tensors.end(), [&](const LaidTensor& t) { return shards_over(t.spec, axis); });
  };
  return {any(layout.parameters), any(layout.activations)};
}

std::int64_t parameter_bytes(const Layout& layout) {
  std::int64_t bytes = 0;
  for (const LaidTensor& tensor : layout.parameters) bytes += bytes_per_device(tensor, layout.mesh);
  return bytes;
}

void find_odd_axes(const Layout& layout, Findings& findings) {
  for (std::size_t i = 0; i < layout.mesh.axes().size(); ++i) {
    const mesh::Axis& axis = layout.mesh.axes()[i];
    if (axis.size() == 1) continue;
    const AxisUse use = use_of(layout, static_cast<AxisIndex>(i));
    const std::string where = fmt::format("mesh axis {}={}", axis.name, axis.size());
    const std::string key = axis.name == "stage" ? "pipeline" : axis.name;
    if (!use.parameters && !use.activations) {
      findings.push_back({Severity::warning, "unused-axis", fmt::format("axis {} shards nothing", axis.name), where,
                          fmt::format("{} devices hold and compute the same", axis.size()),
                          fmt::format("ici_{}_parallelism=1, or a rule that uses it", key)});
    } else if (!use.activations) {
      findings.push_back({Severity::warning, "weights-only-axis",
                          fmt::format("axis {} shards weights but no activation", axis.name), where,
                          fmt::format("weights are gathered over it, and {} devices compute the same", axis.size()),
                          "let it carry the batch or the length: add it to the rules of activation_batch"});
    } else if (!use.parameters) {
      findings.push_back({Severity::info, "replicating-axis",
                          fmt::format("axis {} replicates all parameters (plain data parallelism)", axis.name), where,
                          fmt::format("each of its {} groups holds {} of parameters a device", axis.size(),
                                      bytes_words(parameter_bytes(layout))),
                          axis.name == "data" ? "shard_optimizer_over_data=true, or use fsdp instead"
                                              : "a rule that lays weights on it"});
    }
  }
}

// The weight's label that an activation's label meets in a product.
std::string weight_label(const std::string& label) {
  constexpr std::string_view kPrefix = "activation_";
  return label.starts_with(kPrefix) ? label.substr(kPrefix.size()) : "";
}

bool parameter_has(const Layout& layout, const std::string& label, AxisIndex axis) {
  for (const LaidTensor& tensor : layout.parameters) {
    for (std::size_t dim = 0; dim < tensor.labels().size(); ++dim) {
      const AxisList& axes = tensor.spec.dims[dim];
      if (tensor.labels()[dim] == label && std::find(axes.begin(), axes.end(), axis) != axes.end()) return true;
    }
  }
  return false;
}

bool activation_has(const Layout& layout, const std::string& label, AxisIndex axis) {
  for (const LaidTensor& tensor : layout.activations) {
    for (std::size_t dim = 0; dim < tensor.labels().size(); ++dim) {
      const AxisList& axes = tensor.spec.dims[dim];
      if (tensor.labels()[dim] == label && std::find(axes.begin(), axes.end(), axis) != axes.end()) return true;
    }
  }
  return false;
}

struct Competition {
  std::string loser, winner, losing_rule, winning_rule;
  AxisIndex axis = 0;
  std::vector<std::string> paths;
};

// A dim whose rule was passed over because another dim of the same value holds the axis, though the weights that it
// meets lie on that axis and no activation gives it to the label.
std::map<std::string, Competition> competitions(const Layout& layout) {
  std::map<std::string, Competition> found;
  for (const LaidTensor& tensor : layout.activations) {
    if (tensor.constraint.each_dim_alone) continue;
    const Resolution resolution = resolve(tensor.labels(), layout.rules, layout.mesh, tensor.path);
    for (const RuleStep& step : resolution.steps) {
      const std::string& loser = tensor.labels()[step.dim];
      if (step.outcome != Outcome::axis_taken || layout.mesh.axis(step.blocking_axis).size() == 1) continue;
      if (!parameter_has(layout, weight_label(loser), step.blocking_axis)) continue;
      if (activation_has(layout, loser, step.blocking_axis)) continue;
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

void find_competing_dims(const Layout& layout, Findings& findings) {
  for (const auto& [key, c] : competitions(layout)) {
    const std::string& axis = layout.mesh.axis(c.axis).name;
    const bool dispatch = c.loser == labels::activation_exp && axis == "expert";
    findings.push_back(
        {Severity::warning, "competing-dims",
         fmt::format("dims {} and {} of one value both claim axis {}; {} wins ({} stands before {})", c.winner, c.loser,
                     axis, c.winner, c.winning_rule, c.losing_rule),
         join(c.paths, ", "),
         fmt::format("{} is whole while the weights' {} lies on {}: {}", c.loser, weight_label(c.loser), axis,
                     dispatch ? "expert parallelism becomes a gather of every expert's weights instead of an all-to-all"
                              : "weights are gathered, or the value is moved twice"),
         dispatch ? "moe_dispatch_no_expert_sharding=true"
                  : fmt::format("move the rule of {} before that of {}, or drop {} from it", c.loser, c.winner, axis)});
  }
}

std::int64_t shards_of(const config::AxisRule& rule, const mesh::Mesh& mesh) {
  std::int64_t product = 1;
  for (const std::string& axis : rule.axes) product *= mesh.size_of(axis);
  return product;
}

// A rule passed over only because of an axis of size 1, with no later rule to make up for it.
void find_blocked_by_one(const Layout& layout, Findings& findings) {
  std::set<std::size_t> told;
  for (const LaidTensor& tensor : layout.parameters) {
    for (const RuleStep& step : resolve(tensor.labels(), layout.rules, layout.mesh).steps) {
      const bool by_one = step.outcome == Outcome::axis_taken && layout.mesh.axis(step.blocking_axis).size() == 1;
      const bool lost =
          shards_of(layout.rules[step.rule], layout.mesh) > shards(tensor.spec.dims[step.dim], layout.mesh);
      if (!by_one || !lost || !told.insert(step.rule).second) continue;
      findings.push_back(
          {Severity::warning, "blocked-by-one",
           fmt::format("the rule for {} was passed over for axis {}, which has size 1", tensor.labels()[step.dim],
                       layout.mesh.axis(step.blocking_axis).name),
           fmt::format("{} (rule at {})", tensor.path, layout.rules[step.rule].where),
           fmt::format("dim {} stays whole: {} a device", step.dim, bytes_words(bytes_per_device(tensor, layout.mesh))),
           fmt::format("add a second rule for {} without {}", tensor.labels()[step.dim],
                       layout.mesh.axis(step.blocking_axis).name)});
    }
  }
}

constexpr double kLargeShare = 0.02;  // of all parameter bytes on a device
constexpr double kLargeBytes = 1 << 20;

// Where some axis shards other parameters; an axis that replicates all of them is told of once.
void find_replicated(const Layout& layout, Findings& findings) {
  const bool any_sharded = std::any_of(layout.parameters.begin(), layout.parameters.end(),
                                       [&](const LaidTensor& t) { return shards(t.spec, layout.mesh) > 1; });
  if (!any_sharded) return;
  const double total = static_cast<double>(parameter_bytes(layout));
  std::vector<std::string> paths;
  std::set<std::string> bearers;
  double bytes = 0;
  for (const LaidTensor& tensor : layout.parameters) {
    const auto own = static_cast<double>(bytes_per_device(tensor, layout.mesh));
    if (shards(tensor.spec, layout.mesh) > 1 || own < kLargeShare * total || own < kLargeBytes) continue;
    paths.push_back(tensor.path);
    bearers.insert(tensor.labels().begin(), tensor.labels().end());
    bytes += own;
  }
  if (paths.empty()) return;
  bearers.erase("");
  findings.push_back({Severity::warning, "replicated",
                      fmt::format("{} whole on all {} devices",
                                  paths.size() == 1 ? "a large tensor is" : "large tensors are", layout.mesh.devices()),
                      join(paths, ", "),
                      fmt::format("{} a device, {:.0f}% of its parameters", human_bytes(bytes), 100 * bytes / total),
                      fmt::format("a rule for one of the labels {}", join({bearers.begin(), bearers.end()}, ", "))});
}

void find_uneven(const Layout& layout, Findings& findings) {
  const auto check = [&](const LaidTensor& tensor, Severity severity) {
    for (std::size_t dim = 0; dim < tensor.shape.size(); ++dim) {
      const std::int64_t blocks = shards(tensor.spec.dims[dim], layout.mesh);
      if (tensor.shape[dim] % blocks == 0) continue;
      const std::int64_t block = (tensor.shape[dim] + blocks - 1) / blocks;
      const std::int64_t used = (tensor.shape[dim] + block - 1) / block;
      findings.push_back({severity, "uneven",
                          fmt::format("dim {} ({}) of size {} does not divide over {} shards", dim,
                                      tensor.labels()[dim], tensor.shape[dim], blocks),
                          tensor.path,
                          severity == Severity::error
                              ? "it cannot be laid out so"
                              : fmt::format("blocks of {}: {} of {} shards hold anything", block, used, blocks),
                          "choose axis sizes that divide it"});
    }
  };
  for (const LaidTensor& tensor : layout.parameters) check(tensor, Severity::error);
  for (const LaidTensor& tensor : layout.activations) check(tensor, Severity::warning);
}

void find_small_batch(const Layout& layout, const LintOptions& options, Findings& findings) {
  const std::int64_t blocks = shards(layout.input.spec.dims.front(), layout.mesh);
  if (layout.input.shape.front() % blocks != 0) {
    findings.push_back(
        {Severity::error, "small-batch",
         fmt::format("a batch of {} does not divide over {} shards", counted(layout.input.shape.front(), "row"), blocks),
         "the input", "it cannot be laid out so",
         fmt::format("per_device_batch_size={}",
                     static_cast<double>(blocks) / static_cast<double>(layout.mesh.devices()))});
  } else if (options.rows < blocks) {
    findings.push_back(
        {Severity::warning, "small-batch",
         fmt::format("a pass of {} is smaller than the {} shards of its batch", counted(options.rows, "row"), blocks), "the input",
         fmt::format("{} of {} shards have nothing to do", blocks - options.rows, blocks),
         "raise per_device_batch_size, or let an axis carry the length instead (custom_mesh_and_rule=ep-as-cp)"});
  }
}

}  // namespace

std::vector<Finding> lint(const Layout& layout, const LintOptions& options) {
  Findings findings;
  find_uneven(layout, findings);
  find_small_batch(layout, options, findings);
  find_competing_dims(layout, findings);
  find_odd_axes(layout, findings);
  find_replicated(layout, findings);
  find_blocked_by_one(layout, findings);
  find_idle_rules(layout, findings);
  find_absent_axes(layout, findings);
  find_unruled_labels(layout, findings);
  find_stages(layout, findings);
  const Findings of_experts = lint_experts(layout);
  findings.insert(findings.end(), of_experts.begin(), of_experts.end());
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.severity < b.severity; });
  return findings;
}

bool has_errors(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(), [](const Finding& f) { return f.severity == Severity::error; });
}

std::string_view name_of(Severity severity) {
  switch (severity) {
    case Severity::error: return "error";
    case Severity::warning: return "warning";
    case Severity::info: return "info";
  }
  return "?";
}

namespace {

Colour colour_of(Severity severity) {
  switch (severity) {
    case Severity::error: return Colour::red;
    case Severity::warning: return Colour::yellow;
    case Severity::info: return Colour::blue;
  }
  return Colour::blue;
}

}  // namespace

std::string to_text(const std::vector<Finding>& findings, int width) {
  if (findings.empty()) return "nothing odd.\n";
  std::string text;
  std::map<Severity, int> counts;
  for (const Finding& f : findings) {
    ++counts[f.severity];
    const std::string_view severity = name_of(f.severity);
    const std::string said = wrapped(fmt::format("{}: {} [{}]\n", severity, f.what, f.check), width, 2);
    text += painted(severity, colour_of(f.severity), Stream::out) + said.substr(severity.size());
    text += wrapped(fmt::format("  where: {}\n  cost:  {}\n", f.where, f.cost), width, 7);
    if (!f.fix.empty()) text += wrapped("  fix:   " + f.fix + "\n", width, 7);
  }
  return text + fmt::format("{}, {}, {}.\n", counted(counts[Severity::error], "error"),
                            counted(counts[Severity::warning], "warning"), counted(counts[Severity::info], "remark"));
}

std::string list_json(const std::vector<Finding>& findings) {
  JsonWriter json;
  json.begin_array();
  for (const Finding& f : findings) {
    json.line().begin_object().key("severity").value(name_of(f.severity)).key("check").value(f.check);
    json.key("what").value(f.what).key("where").value(f.where).key("cost").value(f.cost).key("fix").value(f.fix);
    json.end_object();
  }
  json.line().end_array();
  return json.text();
}

std::string to_json(const std::vector<Finding>& findings) {
  JsonWriter json;
  json.begin_object().key("findings").raw(list_json(findings)).line().end_object();
  return json.text() + "\n";
}

}  // namespace moesh::sharding
