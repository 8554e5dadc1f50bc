#include "sharding/why.h"

#include <fmt/core.h>

#include "base/json.h"
#include "base/table.h"
#include "base/text.h"
#include "mesh/json.h"
#include "sharding/report.h"

namespace moesh::sharding {
namespace {

std::string dim_words(const LaidTensor& tensor, std::size_t dim) {
  const std::string& label = tensor.labels()[dim];
  return label.empty() ? fmt::format("dim {}", dim) : fmt::format("dim {} ({})", dim, label);
}

std::string rule_words(const config::AxisRule& rule) {
  return fmt::format("{} -> {}", rule.label, rule.axes.empty() ? "nothing" : join(rule.axes, ", "));
}

// Remarks on the axes of a rule that do not shard: those that the mesh lacks and those of size 1.
std::string axes_remarks(const config::AxisRule& rule, const mesh::Mesh& mesh) {
  std::vector<std::string> absent;
  std::vector<std::string> single;
  for (const std::string& axis : rule.axes) {
    if (!mesh.find(axis)) {
      absent.push_back(axis);
    } else if (mesh.size_of(axis) == 1) {
      single.push_back(axis);
    }
  }
  std::string text;
  if (!absent.empty()) text += fmt::format("; not in the mesh: {}", join(absent, ", "));
  if (!single.empty()) text += fmt::format("; of size 1: {}", join(single, ", "));
  return text;
}

// `ruled`: the spec that rules and constraint give.
std::string taken_words(const LaidTensor& tensor, const Spec& ruled, const config::AxisRule& rule, const RuleStep& step,
                        const mesh::Mesh& mesh) {
  const std::int64_t count = shards(axes_in_mesh(rule, mesh), mesh);
  const std::int64_t kept = shards(ruled.dims[step.dim], mesh);
  const std::string peeled = kept == count ? "" : fmt::format(", of which the peeling below leaves {}", kept);
  return fmt::format("takes {}: {}{}{}", dim_words(tensor, step.dim),
                     count == 1 ? "whole, no axis larger than 1" : fmt::format("{} shards", count), peeled,
                     axes_remarks(rule, mesh));
}

Spec ruled_spec(const Layout& layout, const LaidTensor& tensor) { return lay(tensor.constraint, layout.rules, layout.mesh); }

Verdict judge(const Layout& layout, const std::vector<config::AxisRule>& rules, const LaidTensor& tensor,
              const RuleStep& step) {
  const config::AxisRule& rule = rules[step.rule];
  const std::string dim = dim_words(tensor, step.dim);
  Verdict v{rule_words(rule), rule.where, step.dim, step.outcome, ""};
  switch (step.outcome) {
    case Outcome::taken:
      v.words = taken_words(tensor, ruled_spec(layout, tensor), rule, step, layout.mesh);
      break;
    case Outcome::settled:
      v.words = fmt::format("settles {}: replicated{}", dim, axes_remarks(rule, layout.mesh));
      break;
    case Outcome::dim_assigned:
      v.words = fmt::format("passed over: {} was settled by {}", dim, rules[step.settling_rule].where);
      break;
    case Outcome::axis_taken:
      v.words = fmt::format("passed over whole: axis {}{} is taken by {}", layout.mesh.axis(step.blocking_axis).name,
                            layout.mesh.axis(step.blocking_axis).size() == 1 ? " (of size 1)" : "",
                            dim_words(tensor, step.blocking_dim));
      break;
  }
  return v;
}

std::string_view name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::taken: return "taken";
    case Outcome::settled: return "settled";
    case Outcome::dim_assigned: return "dim_assigned";
    case Outcome::axis_taken: return "axis_taken";
  }
  return "";
}

std::vector<config::AxisRule> rules_for(const Layout& layout, const LaidTensor& tensor) {
  return tensor.constraint.stage_as_data ? with_stage_as_data(layout.rules) : layout.rules;
}

// What the constraint changes in the spec that the rules give.
std::string changes(const Layout& layout, const LaidTensor& tensor) {
  std::string text;
  if (tensor.constraint.each_dim_alone) text += "Each dim was resolved alone, so two may claim one axis.\n";
  if (tensor.constraint.stage_as_data) text += "Beside the pipeline: stage carries the batch, before data.\n";
  if (!tensor.constraint.peeled.empty()) {
    std::vector<std::string> dims;
    for (const int dim : tensor.constraint.peeled_dims) dims.push_back(std::to_string(dim));
    text += fmt::format("Then {} is peeled off {}.\n", join(tensor.constraint.peeled, ", "),
                        dims.empty() ? "all dims" : "dim " + join(dims, ", "));
  }
  const Spec ruled = ruled_spec(layout, tensor);
  for (std::size_t dim = 0; dim < ruled.dims.size(); ++dim) {
    if (ruled.dims[dim] == tensor.spec.dims[dim]) continue;
    text += fmt::format("Then data is put first in dim {}, as shard_optimizer_over_data wants.\n", dim);
  }
  return tensor.constraint.is_plain() && ruled.dims == tensor.spec.dims
             ? text
             : text + fmt::format("So it lies as {}.\n", spec_words(tensor.spec, layout.mesh));
}

std::vector<std::string> labels_without_rule(const Layout& layout, const LaidTensor& tensor) {
  std::vector<std::string> labels;
  for (const std::string& label : tensor.labels()) {
    if (!label.empty() && !has_rule(layout.rules, label)) labels.push_back(label);
  }
  return labels;
}

std::string unruled(const Layout& layout, const LaidTensor& tensor) {
  const std::vector<std::string> words = labels_without_rule(layout, tensor);
  return words.empty() ? "" : fmt::format("No rule for: {} (replicated).\n", join(words, ", "));
}

// The kind of a dim: its label without the parts that name a place in the model.
std::string_view kind_of(const std::string& label) {
  for (const std::string_view kind :
       {"batch", "length", "sequence", "stage", "layers", "heads", "head_dim", "mlp", "embed", "vocab", "lora"}) {
    if (label.find(kind) != std::string::npos) return kind == "sequence" ? "length" : kind;
  }
  return label.starts_with("activation_") ? std::string_view(label).substr(11) : label;
}

std::string list_words(const AxisList& axes, const mesh::Mesh& mesh) {
  return axes.empty() ? "no axis" : join(names_of(axes, mesh), ", ");
}

// Dims of the same kind that are sharded over different axes in the two values, at whatever position they are.
std::string differences(const LaidTensor& here, const LaidTensor& there, const mesh::Mesh& mesh) {
  const Spec a = without_size_one(here.spec, mesh), b = without_size_one(there.spec, mesh);
  std::vector<std::string> words;
  for (std::size_t i = 0; i < a.dims.size(); ++i) {
    const std::string& label = here.labels()[i];
    if (label.empty()) continue;
    for (std::size_t j = 0; j < b.dims.size(); ++j) {
      if (there.labels()[j].empty() || kind_of(there.labels()[j]) != kind_of(label) || a.dims[i] == b.dims[j]) continue;
      words.push_back(fmt::format("{} on {}, here on {}", kind_of(label), list_words(b.dims[j], mesh), list_words(a.dims[i], mesh)));
    }
  }
  return join(words, "; ");
}

// The neighbours of a value in the graph, across layers, and the parameters that it is made with.
std::string neighbours(const Layout& layout, const LaidTensor& tensor) {
  std::string text = tensor.made_by.empty() ? "" : "\nMade by " + tensor.made_by + "\n";
  const auto list = [&](const char* title, const std::vector<LaidTensor>& of, const std::vector<int>& indices, bool compares) {
    for (const int index : indices) {
      const LaidTensor& other = of[static_cast<std::size_t>(index)];
      const std::string other_layout = compares ? differences(tensor, other, layout.mesh) : "";
      text += fmt::format("  {} {}  {}{}\n", title, other.path, spec_words(other.spec, layout.mesh),
                          other_layout.empty() ? "" : "  <- another layout: " + other_layout);
    }
  };
  list("from", layout.activations, tensor.sources, true);
  list("with", layout.parameters, tensor.weights, false);
  if (tensor.made_by.empty() && !tensor.users.empty()) text += "\nUsed\n";
  list("for ", layout.activations, tensor.users, !tensor.made_by.empty());
  return text;
}

AxisList unused_axes(const LaidTensor& tensor, const mesh::Mesh& mesh) {
  const AxisList used = distinct_axes(tensor.spec);
  AxisList unused;
  for (std::size_t i = 0; i < mesh.axes().size(); ++i) {
    const auto axis = static_cast<AxisIndex>(i);
    if (mesh.axis(axis).size() > 1 && !holds(used, axis)) unused.push_back(axis);
  }
  return unused;
}

// The axes that do not shard the value, and the copies that they cause.
std::string copies_words(const Layout& layout, const LaidTensor& tensor) {
  if (layout.mesh.devices() == 1) return "";
  const AxisList unused = unused_axes(tensor, layout.mesh);
  if (unused.empty()) return "Every axis shards it: there is one copy.\n";
  std::vector<std::string> words;
  for (const AxisIndex axis : unused) words.push_back(fmt::format("{}={}", layout.mesh.axis(axis).name, layout.mesh.axis(axis).size()));
  return fmt::format("Unused for it: {}, so there are {} copies of each shard.\n", join(words, ", "),
                     with_commas(replicas(tensor, layout.mesh)));
}

std::string dims_table(const Layout& layout, const LaidTensor& tensor, int width) {
  Table table({{"dim", true}, {"label"}, {"size", true}, {"axes", false, Room::wrap}, {"block", true}});
  const Shape local = shard_shape(tensor.shape, tensor.spec, layout.mesh);
  for (std::size_t dim = 0; dim < tensor.shape.size(); ++dim) {
    const std::string axes = axis_names(tensor.spec.dims[dim], layout.mesh);
    table.add({std::to_string(dim), tensor.labels()[dim].empty() ? "-" : tensor.labels()[dim],
               with_commas(tensor.shape[dim]), axes.empty() ? "-" : axes, with_commas(local[dim])});
  }
  return table.text(width);
}

std::string costs(const Layout& layout, const LaidTensor& tensor) {
  const std::int64_t local = bytes_per_device(tensor, layout.mesh);
  const std::int64_t whole = whole_bytes(tensor);
  const std::int64_t copies = replicas(tensor, layout.mesh);
  return fmt::format("It costs {} on {} ({} whole); each shard stands on {}.\n",
                     human_bytes(local),
                     layout.mesh.devices() == 1 ? "the one device" : "each of " + counted(layout.mesh.devices(), "device"),
                     human_bytes(whole), counted(copies, "device"));
}

}  // namespace

std::vector<const LaidTensor*> find_tensors(const Layout& layout, const std::string& name) {
  std::vector<const LaidTensor*> exact, ending, partial;
  for (const auto* list : {&layout.parameters, &layout.activations, &layout.states}) {
    for (const LaidTensor& tensor : *list) {
      if (tensor.path == name) exact.push_back(&tensor);
      if (tensor.path.ends_with("/" + name)) ending.push_back(&tensor);
      if (tensor.path.find(name) != std::string::npos) partial.push_back(&tensor);
    }
  }
  // Moments have the names of their parameters in their paths, so only a whole path means one.
  for (const LaidTensor& moment : layout.moments) {
    if (moment.path == name) exact.push_back(&moment);
  }
  return !exact.empty() ? exact : !ending.empty() ? ending : partial;
}

std::vector<Verdict> verdicts(const Layout& layout, const LaidTensor& tensor) {
  const std::vector<config::AxisRule> rules = rules_for(layout, tensor);
  std::vector<Verdict> all;
  if (!tensor.constraint.each_dim_alone) {
    for (const RuleStep& step : resolve(tensor.labels(), rules, layout.mesh).steps) {
      all.push_back(judge(layout, rules, tensor, step));
    }
    return all;
  }
  for (std::size_t dim = 0; dim < tensor.labels().size(); ++dim) {
    for (RuleStep step : resolve({tensor.labels()[dim]}, rules, layout.mesh).steps) {
      step.dim = dim;
      all.push_back(judge(layout, rules, tensor, step));
    }
  }
  return all;
}

std::string remarks(const Layout& layout, const LaidTensor& tensor) {
  return changes(layout, tensor) + unruled(layout, tensor) + costs(layout, tensor) + copies_words(layout, tensor);
}

std::string why(const Layout& layout, const LaidTensor& tensor, int width) {
  const std::string head = fmt::format("{}  {} {}\nlies as {}\n\n", tensor.path, moesh::to_string(tensor.shape),
                                       name_of(tensor.dtype), spec_words(tensor.spec, layout.mesh));
  Table rules({{""}, {"", false, Room::wrap}, {"", false, Room::wrap}});
  for (const Verdict& v : verdicts(layout, tensor)) rules.add({"  " + v.where, v.rule, v.words});
  const std::string rest = changes(layout, tensor) + unruled(layout, tensor) + "\n" + costs(layout, tensor) +
                           neighbours(layout, tensor) + "\n" + copies_words(layout, tensor);
  return wrapped(head, width, 2) + dims_table(layout, tensor, width) + "\nRules, in order:\n" + rules.text(width) + wrapped(rest, width, 2);
}

std::string why_json(const Layout& layout, const LaidTensor& tensor, const std::vector<std::pair<std::string, std::string>>& members) {
  JsonWriter json;
  json.begin_object().key("path").value(tensor.path).key("shape").values(tensor.shape).key("dtype").value(name_of(tensor.dtype));
  json.key("labels").values(tensor.labels()).key("spec").value(spec_words(tensor.spec, layout.mesh));
  json.key("bytes").value(whole_bytes(tensor)).key("bytes_per_device").value(bytes_per_device(tensor, layout.mesh));
  json.key("replicas").value(replicas(tensor, layout.mesh)).line();
  mesh::write_sizes(layout.mesh, json.key("mesh"));
  json.line().key("rules").begin_array();
  for (const Verdict& v : verdicts(layout, tensor)) {
    json.line().begin_object().key("rule").value(v.rule).key("where").value(v.where);
    json.key("dim").value(static_cast<std::int64_t>(v.dim)).key("outcome").value(name_of(v.outcome));
    json.key("words").value(v.words).end_object();
  }
  json.line().end_array().line().key("labels_without_rule").values(labels_without_rule(layout, tensor));
  json.key("made_by").value(tensor.made_by);
  const auto paths = [&](const char* key, const std::vector<LaidTensor>& of, const std::vector<int>& indices) {
    json.line().key(key).begin_array();
    for (const int index : indices) {
      const LaidTensor& other = of[static_cast<std::size_t>(index)];
      json.begin_object().key("path").value(other.path).key("spec").value(spec_words(other.spec, layout.mesh)).end_object();
    }
    json.end_array();
  };
  paths("sources", layout.activations, tensor.sources);
  paths("weights", layout.parameters, tensor.weights);
  paths("users", layout.activations, tensor.users);
  json.line().key("unused_axes").begin_array();
  for (const AxisIndex axis : unused_axes(tensor, layout.mesh)) json.value(layout.mesh.axis(axis).name);
  json.end_array();
  for (const auto& [name, value] : members) json.line().key(name).value(value);
  json.line().end_object();
  return json.text() + "\n";
}

}  // namespace moesh::sharding
