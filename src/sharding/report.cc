#include "sharding/report.h"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/core.h>

#include "base/table.h"
#include "base/text.h"

namespace moesh::sharding {
namespace {

constexpr std::array<std::string_view, 9> kOrder{"embedding", "attention", "dense MLP",      "router",         "experts",
                                                 "shared experts", "norms",     "logits", "residual stream"};

struct Totals {
  std::int64_t elements = 0;
  std::int64_t bytes = 0;

  void add(const LaidTensor& tensor, const mesh::Mesh& mesh) {
    elements += moesh::elements(tensor.shape);
    bytes += bytes_per_device(tensor, mesh);
  }
};

// Components in the order in which a model meets them.
std::vector<std::pair<std::string, std::vector<const LaidTensor*>>> by_component(
    const std::vector<LaidTensor>& tensors, const std::string& filter) {
  std::map<std::string, std::vector<const LaidTensor*>> found;
  for (const LaidTensor& tensor : tensors) {
    if (matches(tensor, filter)) found[component_of(tensor.path)].push_back(&tensor);
  }
  std::vector<std::pair<std::string, std::vector<const LaidTensor*>>> ordered;
  for (const std::string_view name : kOrder) {
    if (const auto group = found.find(std::string(name)); group != found.end()) ordered.emplace_back(*group);
  }
  return ordered;
}

std::string bytes_words(std::int64_t bytes) { return human_bytes(static_cast<double>(bytes)); }

Table tensor_table(std::string_view title) {
  return Table({{std::string(title), false, true, true},
                {"shape", false, false},
                {"labels", false, true},
                {"spec", false, true},
                {"bytes a device", true, false},
                {"replicas", true, false}});
}

void add_tensor(Table& table, const LaidTensor& tensor, const mesh::Mesh& mesh) {
  table.add({"  " + tensor.path, moesh::to_string(tensor.shape), words_of(tensor.labels()),
             to_string(without_size_one(tensor.spec, mesh), mesh), bytes_words(bytes_per_device(tensor, mesh)),
             with_commas(replicas(tensor, mesh))});
}

std::string parameter_table(const Layout& layout, const ReportOptions& options) {
  Table table = tensor_table("parameter");
  for (const auto& [component, tensors] : by_component(layout.parameters, options.filter)) {
    Totals totals;
    for (const LaidTensor* tensor : tensors) totals.add(*tensor, layout.mesh);
    table.add_group({component, human_count(static_cast<double>(totals.elements)), "", "", bytes_words(totals.bytes), ""});
    for (const LaidTensor* tensor : tensors) add_tensor(table, *tensor, layout.mesh);
  }
  return table.text(options.width);
}

std::string activation_table(const Layout& layout, const ReportOptions& options) {
  Table table = tensor_table("activation");
  for (const LaidTensor& tensor : layout.activations) {
    if (matches(tensor, options.filter)) add_tensor(table, tensor, layout.mesh);
  }
  return table.text(options.width);
}

std::string totals(const Layout& layout) {
  Totals parameters;
  Totals moments;
  for (const LaidTensor& tensor : layout.parameters) parameters.add(tensor, layout.mesh);
  for (const LaidTensor& tensor : layout.moments) moments.add(tensor, layout.mesh);
  return fmt::format(
      "{} parameters. On each device: {} of parameters + {} of optimizer state = {}.\n"
      "Input {} of tokens lies as {}.\n",
      human_count(static_cast<double>(parameters.elements)), bytes_words(parameters.bytes), bytes_words(moments.bytes),
      bytes_words(parameters.bytes + moments.bytes), moesh::to_string(layout.input.shape),
      to_string(without_size_one(layout.input.spec, layout.mesh), layout.mesh));
}

}  // namespace

std::string words_of(const Labels& labels) {
  std::vector<std::string> words;
  for (const std::string& label : labels) words.push_back(label.empty() ? "-" : label);
  return join(words, ", ");
}

bool matches(const LaidTensor& tensor, const std::string& filter) {
  return filter.empty() || tensor.path.find(filter) != std::string::npos ||
         std::find(tensor.labels().begin(), tensor.labels().end(), filter) != tensor.labels().end();
}

std::string report(const Layout& layout, const ReportOptions& options) {
  std::string text = parameter_table(layout, options);
  if (options.activations) text += "\n" + activation_table(layout, options);
  return text + "\n" + totals(layout);
}

}  // namespace moesh::sharding
