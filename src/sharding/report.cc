#include "sharding/report.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/core.h>

#include "base/error.h"
#include "base/table.h"
#include "base/text.h"

namespace moesh::sharding {
namespace {

struct Totals {
  std::int64_t elements = 0;
  std::int64_t bytes = 0;

  void add(const LaidTensor& tensor, const mesh::Mesh& mesh) {
    elements += moesh::elements(tensor.shape);
    bytes += bytes_per_device(tensor, mesh);
  }
};

// Groups of tensors by component, in the order in which a model uses them.
std::vector<std::pair<std::string, std::vector<const LaidTensor*>>> by_component(
    const std::vector<LaidTensor>& tensors) {
  std::map<std::string, std::vector<const LaidTensor*>> found;
  for (const LaidTensor& tensor : tensors) {
    found[std::string(component_of(tensor.role))].push_back(&tensor);
  }
  std::vector<std::pair<std::string, std::vector<const LaidTensor*>>> ordered;
  for (const std::string_view name : components()) {
    if (const auto group = found.find(std::string(name)); group != found.end()) ordered.emplace_back(*group);
  }
  return ordered;
}

// On a narrow terminal the labels are dropped first, then the replicas, then the shape. The spec always stays.
Table tensor_table(std::string_view title) {
  return Table({{std::string(title)}, {"shape", false, Room::none, 1}, {"labels", false, Room::cut, 3}, {"spec"}, {"a device", true},
                {"replicas", true, Room::none, 2}});
}

void add_tensors(Table& table, const std::vector<const LaidTensor*>& tensors, const mesh::Mesh& mesh, int width) {
  std::vector<std::string> paths;
  for (const LaidTensor* tensor : tensors) paths.push_back(tensor->path);
  for (const TreeLine& line : path_lines(paths, width)) {
    if (!line.path) {
      table.add({line.text, "", "", "", "", ""});
      continue;
    }
    const LaidTensor& tensor = *tensors[*line.path];
    table.add({line.text, moesh::to_string(tensor.shape), words_of(tensor.labels()), spec_words(tensor.spec, mesh),
               human_bytes(bytes_per_device(tensor, mesh)), with_commas(replicas(tensor, mesh))});
  }
}

std::string parameter_table(const Layout& layout, int width) {
  Table table = tensor_table("parameter");
  for (const auto& [component, tensors] : by_component(layout.parameters)) {
    Totals totals;
    for (const LaidTensor* tensor : tensors) totals.add(*tensor, layout.mesh);
    table.add_group({component, human_count(static_cast<double>(totals.elements)), "", "", human_bytes(totals.bytes), ""});
    add_tensors(table, tensors, layout.mesh, width);
  }
  return table.text(width);
}

std::string activation_table(const Layout& layout, int width) {
  Table table = tensor_table("activation");
  std::vector<const LaidTensor*> tensors;
  for (const LaidTensor& tensor : layout.activations) tensors.push_back(&tensor);
  add_tensors(table, tensors, layout.mesh, width);
  return table.text(width);
}

std::string cache_table(const Layout& layout, int width) {
  Table table = tensor_table("KV cache");
  std::vector<const LaidTensor*> tensors;
  for (const LaidTensor& tensor : layout.states) tensors.push_back(&tensor);
  add_tensors(table, tensors, layout.mesh, width);
  return table.text(width);
}

// A layout of training has optimizer state, one of decoding a KV cache.
std::string totals(const Layout& layout, bool has_moments_on_host) {
  Totals parameters;
  Totals others;
  for (const LaidTensor& tensor : layout.parameters) parameters.add(tensor, layout.mesh);
  for (const auto* tensors : {&layout.moments, &layout.states}) {
    for (const LaidTensor& tensor : *tensors) others.add(tensor, layout.mesh);
  }
  const std::string other = fmt::format("{} of {}", human_bytes(others.bytes), layout.states.empty() ? "optimizer state" : "KV cache");
  const std::string rest = has_moments_on_host ? fmt::format("; {} wait in the host's memory", other)
                                               : fmt::format(" + {} = {}", other, human_bytes(parameters.bytes + others.bytes));
  const std::vector<const LaidTensor*> moved = moved_moments(layout);
  const std::string of_moved = moved.empty() ? ""
                                             : fmt::format("Moments that lie otherwise than their parameters: {}; `moesh why {} ...` "
                                                           "tells how.\n", moved.size(), moved.front()->path);
  return fmt::format("{} parameters. On each device: {} of parameters{}.\n{}Input {} of tokens lies as {}.\n",
                     human_count(static_cast<double>(parameters.elements)), human_bytes(parameters.bytes), rest, of_moved,
                     moesh::to_string(layout.input.shape), spec_words(layout.input.spec, layout.mesh));
}

// Refuses the filter and suggests the nearest names: paths, their parts, the words of these, and labels.
[[noreturn]] void refuse_filter(const Layout& layout, const std::string& filter) {
  std::set<std::string> names;
  for (const auto* tensors : {&layout.parameters, &layout.activations, &layout.states}) {
    for (const LaidTensor& tensor : *tensors) {
      names.insert(tensor.path);
      for (const std::string& part : split(tensor.path, '/')) {
        names.insert(part);
        for (const std::string& word : split(part, '_')) names.insert(word);
      }
      names.insert(tensor.labels().begin(), tensor.labels().end());
    }
  }
  names.erase("");
  const std::vector<std::string> close = nearest(filter, {names.begin(), names.end()});
  refuse(fmt::format("no tensor's path holds '{}', and none bears it as a label", shorten(filter, 80)), "--filter",
         close.empty() ? "`moesh shardings --activations` lists all paths" : "did you mean " + join(close, ", ") + "?");
}

}  // namespace

std::string words_of(const Labels& labels) {
  std::vector<std::string> words;
  for (const std::string& label : labels) words.push_back(label.empty() ? "-" : label);
  return join(words, ", ");
}

std::string axis_names(const AxisList& axes, const mesh::Mesh& mesh) {
  std::vector<std::string> words;
  for (const AxisIndex axis : axes) {
    if (mesh.axis(axis).size() > 1) words.push_back(fmt::format("{}={}", mesh.axis(axis).name, mesh.axis(axis).size()));
  }
  return join(words, " x ");
}

std::string spec_words(const Spec& spec, const mesh::Mesh& mesh) { return to_string(without_size_one(spec, mesh), mesh); }

namespace {

bool matches(const LaidTensor& tensor, const std::string& filter) {
  return filter.empty() || tensor.path.find(filter) != std::string::npos ||
         std::find(tensor.labels().begin(), tensor.labels().end(), filter) != tensor.labels().end();
}

}  // namespace

bool has_match(const Layout& layout, const std::string& filter) {
  const auto any = [&](const std::vector<LaidTensor>& tensors) {
    return std::any_of(tensors.begin(), tensors.end(), [&](const LaidTensor& tensor) { return matches(tensor, filter); });
  };
  return any(layout.parameters) || any(layout.activations) || any(layout.states);
}

void check_filter(const Layout& layout, const std::string& filter) {
  if (!has_match(layout, filter)) refuse_filter(layout, filter);
}

Layout filtered(const Layout& layout, const std::string& filter) {
  Layout kept = layout;
  std::erase_if(kept.parameters, [&](const LaidTensor& tensor) { return !matches(tensor, filter); });
  std::set<std::string> paths;
  for (const LaidTensor& tensor : kept.parameters) paths.insert(tensor.path);
  std::erase_if(kept.moments, [&](const LaidTensor& moment) { return !paths.contains(moment.moment_of); });
  std::erase_if(kept.states, [&](const LaidTensor& tensor) { return !matches(tensor, filter); });
  std::erase_if(kept.activations, [&](const LaidTensor& tensor) { return !matches(tensor, filter); });
  for (auto* tensors : {&kept.parameters, &kept.activations}) {
    for (LaidTensor& tensor : *tensors) {
      tensor.sources.clear();
      tensor.weights.clear();
      tensor.users.clear();
    }
  }
  return kept;
}

std::vector<TreeLine> path_lines(const std::vector<std::string>& paths, int width) {
  return width == 0 ? list_of(paths, 2) : tree_of(paths, 2);
}

std::string report(const Layout& layout, const ReportOptions& options) {
  check_filter(layout, options.filter);
  const Layout kept = filtered(layout, options.filter);
  const bool only_activations = kept.parameters.empty() && kept.states.empty();
  std::string text;
  if (!kept.parameters.empty()) text += parameter_table(kept, options.width) + "\n";
  if (!kept.states.empty()) text += cache_table(kept, options.width) + "\n";
  if (options.activations || only_activations) text += activation_table(kept, options.width) + "\n";
  return text + wrapped(totals(layout, options.has_moments_on_host), options.width, 2);
}

}  // namespace moesh::sharding
