#include "graph/print.h"

#include <fmt/core.h>

#include "base/text.h"
#include "graph/words.h"

namespace moesh::graph {
namespace {

using sharding::Spec;

std::string value_words(const Graph& graph, ValueId id, const mesh::Mesh* mesh) {
  const Value& value = graph.value(id);
  const bool lies = mesh != nullptr && value.spec != Spec{};
  return fmt::format("%{}: {}{}{}", id, name_of(value.dtype), moesh::to_string(value.shape),
                     lies ? " as " + Words(mesh)(value.spec) : "");
}

std::string references(const std::vector<ValueId>& ids) {
  std::vector<std::string> all;
  for (const ValueId id : ids) all.push_back(fmt::format("%{}", id));
  return join(all, ", ");
}

void write(const Graph& graph, const mesh::Mesh* mesh, int depth, std::string& text) {
  const std::string indent(static_cast<std::size_t>(2 * depth), ' ');
  for (const Node& node : graph.nodes) {
    std::vector<std::string> made;
    for (const ValueId result : node.results) made.push_back(value_words(graph, result, mesh));
    text += fmt::format("{}{} = {}", indent, join(made, ", "), name_of(node.op));
    for (const std::string& part : {references(node.operands), to_text(node.attributes, mesh)})
      text += part.empty() ? "" : " " + part;
    if (!node.tag.empty()) text += " tag " + quoted(node.tag);
    if (node.phase != Phase::forward) text += " phase " + Words(mesh)(node.phase);
    text += "  # " + node.path + "\n";
    const auto* region = std::get_if<RegionOf>(&node.attributes);
    if (const Graph* body = body_of(node))
      write(*body, region == nullptr ? mesh : region->written_for.get(), depth + 1, text);
  }
  std::vector<std::string> results;
  for (std::size_t i = 0; i < graph.results.size(); ++i) {
    const bool has_name = i < graph.result_names.size();
    results.push_back(fmt::format("%{}{}", graph.results[i], has_name ? " as " + quoted(graph.result_names[i]) : ""));
  }
  text += fmt::format("{}return {}\n", indent, join(results, ", "));
}

}  // namespace

std::string to_text(const Attributes& attributes, const mesh::Mesh* mesh) {
  const auto visitor = [&]<typename Of>(const Of& of) -> std::string {
    if constexpr (std::is_same_v<Of, std::monostate>) {
      return "";
    } else if constexpr (std::is_same_v<Of, RegionOf>) {
      return Words(of.written_for.get()).fields(of);
    } else {
      return Words(mesh).fields(of);
    }
  };
  return std::visit(visitor, attributes);
}

std::string to_text(const Spec& spec, const mesh::Mesh* mesh) { return Words(mesh)(spec); }

std::string to_text(const Graph& graph, const mesh::Mesh* mesh) {
  std::string text;
  if (mesh != nullptr) text += "mesh " + Words(mesh)(*mesh) + "\n";
  write(graph, mesh, 0, text);
  return text;
}

GraphCounts count(const Graph& graph) {
  GraphCounts counts;
  for (const Node& node : graph.nodes) {
    ++counts.nodes;
    counts.parameters += node.op == Op::parameter ? 1 : 0;
    counts.constraints += node.op == Op::constraint ? 1 : 0;
    if (const Graph* body = body_of(node)) {
      const GraphCounts inner = count(*body);
      counts.nodes += inner.nodes;
      counts.constraints += inner.constraints;
    }
  }
  return counts;
}

}  // namespace moesh::graph
