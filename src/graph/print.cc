#include "graph/print.h"

#include <algorithm>
#include <cctype>

#include <fmt/core.h>

#include "base/text.h"
#include "graph/fields.h"

namespace moesh::graph {
namespace {

using sharding::AxisList;
using sharding::Spec;

bool is_plain(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '/' || c == '.';
}

// Words are printed even at their default: an op is unclear without them. But a role or a kind of input that is at its default
// says nothing.
template <typename T>
constexpr bool is_word = std::is_enum_v<T> && !std::is_same_v<T, Role> && !std::is_same_v<T, InputOf::Kind>;

// The value of a field, as the reader in parse.cc takes it.
class Words {
 public:
  explicit Words(const mesh::Mesh* mesh) : mesh_(mesh) {}

  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int value) const { return std::to_string(value); }
  std::string operator()(std::int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return fmt::format("{}", value); }
  std::string operator()(const std::string& value) const {
    return !value.empty() && std::all_of(value.begin(), value.end(), is_plain) ? value : '"' + value + '"';
  }
  std::string operator()(const std::vector<int>& values) const { return list(values); }
  std::string operator()(const std::vector<std::int64_t>& values) const { return list(values); }
  std::string operator()(const Labels& labels) const {
    std::vector<std::string> all;
    for (const std::string& label : labels) all.push_back(label.empty() ? "-" : label);
    return "(" + join(all, ", ") + ")";
  }
  std::string operator()(const AxisList& axes) const {
    std::vector<std::string> all;
    for (const sharding::AxisIndex axis : axes)
      all.push_back(mesh_ == nullptr ? std::to_string(axis) : mesh_->axis(axis).name);
    return "(" + join(all, ", ") + ")";
  }
  std::string operator()(const Spec& spec) const {
    std::vector<std::string> dims;
    for (const AxisList& axes : spec.dims) dims.push_back(axes.empty() ? "-" : (*this)(axes));
    return "[" + join(dims, ", ") + "]" + (spec.partial.empty() ? "" : "+sum" + (*this)(spec.partial)) +
           (spec.own.empty() ? "" : "+own" + (*this)(spec.own));
  }
  std::string operator()(const std::vector<Spec>& specs) const {
    std::vector<std::string> all;
    for (const Spec& spec : specs) all.push_back((*this)(spec));
    return "{" + join(all, ", ") + "}";
  }
  std::string operator()(const std::shared_ptr<const mesh::Mesh>& mesh) const { return mesh_words(*mesh); }
  std::string operator()(const Initializer& initializer) const { return "{" + fields(initializer) + "}"; }
  template <typename Word>
  requires std::is_enum_v<Word> std::string operator()(Word word) const {
    return std::string(words_of(static_cast<const Word*>(nullptr))[static_cast<std::size_t>(word)]);
  }

  // The fields that are not at their defaults.
  template <typename Of>
  std::string fields(const Of& of) const {
    const Of blank{};
    std::vector<std::string> all;
    const auto add = [&](const auto& field) {
      if (is_word<std::remove_cvref_t<decltype(of.*field.member)>> || of.*field.member != blank.*field.member)
        all.push_back(fmt::format("{}={}", field.name, (*this)(of.*field.member)));
    };
    std::apply([&](const auto&... field) { (add(field), ...); }, fields_of(static_cast<const Of*>(nullptr)));
    return join(all, " ");
  }

  static std::string mesh_words(const mesh::Mesh& mesh) {
    std::vector<std::string> all;
    for (const mesh::Axis& axis : mesh.axes()) {
      all.push_back(axis.dcn == 1 ? fmt::format("{}={}", axis.name, axis.ici)
                                  : fmt::format("{}={}x{}", axis.name, axis.dcn, axis.ici));
    }
    return "{" + join(all, " ") + "}";
  }

 private:
  template <typename T>
  static std::string list(const std::vector<T>& values) {
    std::vector<std::string> all;
    for (const T value : values) all.push_back(std::to_string(value));
    return "[" + join(all, ", ") + "]";
  }

  const mesh::Mesh* mesh_;
};

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
    if (!node.tag.empty()) text += " tag " + node.tag;
    if (node.phase != Phase::forward) text += " phase " + Words(mesh)(node.phase);
    text += "  # " + node.path + "\n";
    const auto* region = std::get_if<RegionOf>(&node.attributes);
    if (const Graph* body = body_of(node))
      write(*body, region == nullptr ? mesh : region->written_for.get(), depth + 1, text);
  }
  std::vector<std::string> results;
  for (std::size_t i = 0; i < graph.results.size(); ++i) {
    const bool has_name = i < graph.result_names.size();
    results.push_back(fmt::format("%{}{}", graph.results[i], has_name ? " as " + graph.result_names[i] : ""));
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
  if (mesh != nullptr) text += "mesh " + Words::mesh_words(*mesh) + "\n";
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
