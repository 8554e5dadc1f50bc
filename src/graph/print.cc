#include "graph/print.h"

#include <fmt/core.h>

#include "base/text.h"

namespace moesh::graph {
namespace {

std::string words(const std::vector<int>& numbers) {
  std::vector<std::string> all;
  for (const int number : numbers) all.push_back(std::to_string(number));
  return "[" + join(all, ", ") + "]";
}

std::string words(const Labels& labels) {
  std::vector<std::string> all;
  for (const std::string& label : labels) all.push_back(label.empty() ? "-" : label);
  return "(" + join(all, ", ") + ")";
}

// What an op does beyond its name.
struct Describe {
  std::string operator()(const std::monostate&) const { return ""; }
  std::string operator()(const ParameterOf& of) const { return words(of.labels); }
  std::string operator()(const InputOf& of) const { return words(of.labels); }
  std::string operator()(const EinsumOf& of) const { return of.equation; }
  std::string operator()(const UnaryOf& of) const {
    switch (of.function) {
      case Unary::scale:
      case Unary::minimum:
      case Unary::offset: return fmt::format("{} {:.6g}", name_of(of.function), of.a);
      case Unary::clamp: return fmt::format("clamp [{:.6g}, {:.6g}]", of.a, of.b);
      default: return std::string(name_of(of.function));
    }
  }
  std::string operator()(const BinaryOf& of) const { return std::string(name_of(of.function)); }
  std::string operator()(const BroadcastOf& of) const { return "dims " + words(of.dims); }
  std::string operator()(const ReduceOf& of) const {
    return fmt::format("{} over {}", name_of(of.function), words(of.dims));
  }
  std::string operator()(const TransposeOf& of) const { return words(of.order); }
  std::string operator()(const SliceOf& of) const {
    return fmt::format("dim {} [{}, {})", of.dim, of.begin, of.begin + of.size);
  }
  std::string operator()(const ConcatOf& of) const { return fmt::format("dim {}", of.dim); }
  std::string operator()(const PadOf& of) const { return fmt::format("dim {} +{} +{}", of.dim, of.before, of.after); }
  std::string operator()(const FillOf& of) const { return fmt::format("{:.6g}", of.value); }
  std::string operator()(const AdamOf& of) const {
    return fmt::format("adam {:.4g} {:.4g}{}{}", of.beta1, of.beta2, of.nesterov ? " nesterov" : "",
                       of.pax ? " pax" : "");
  }
  std::string operator()(const SgdOf&) const { return "sgd"; }
  std::string operator()(const RmsNormOf& of) const { return fmt::format("epsilon {:.3g}", of.epsilon); }
  std::string operator()(const RopeOf& of) const {
    const char* kind = of.kind == RopeOf::Kind::yarn ? "yarn" : of.kind == RopeOf::Kind::llama3 ? "llama3" : "standard";
    return fmt::format("{} theta {:.6g}{}", kind, of.max_timescale, of.interleave ? " interleaved" : "") +
           (of.inverse ? " inverse" : "");
  }
  std::string operator()(const AttentionOf& of) const {
    const std::string window = of.window > 0 ? fmt::format(", window {}", of.window) : "";
    const char* precision = of.float32_scores ? ", float32 scores" : of.float32_softmax ? ", float32 softmax" : "";
    return "causal" + window + precision;
  }
  std::string operator()(const CrossEntropyOf& of) const {
    return of.z_loss > 0 ? fmt::format("z-loss {:.3g}", of.z_loss) : "";
  }
  std::string operator()(const TopKOf& of) const {
    const std::string groups = of.groups > 0 ? fmt::format(" of {} of {} groups", of.chosen_groups, of.groups) : "";
    return fmt::format("top {}{}{}", of.k, groups, of.normalize ? ", normalised" : "");
  }
  std::string operator()(const DrawOf& of) const { return fmt::format("of {} experts, skew {:.3g}", of.experts, of.skew); }
  std::string operator()(const SpreadOf& of) const { return fmt::format("over {} experts", of.experts); }
  std::string operator()(const SlotMaskOf& of) const {
    return fmt::format("{} experts x {} slots", of.experts, of.capacity);
  }
  std::string operator()(const sharding::Constraint& of) const {
    std::string text = words(of.labels);
    if (of.each_dim_alone) text += " each dim alone";
    if (!of.peeled.empty()) {
      text += fmt::format(" less {}{}", join(of.peeled, ", "),
                          of.peeled_dims.empty() ? "" : " on dims " + words(of.peeled_dims));
    }
    return text;
  }
  std::string operator()(const ReshardOf& of) const { return std::string(name_of(of.kind)); }
  std::string operator()(const StageStateOf& of) const { return fmt::format("{} stages", of.stages); }
  std::string operator()(const RepeatOf& of) const { return fmt::format("x {} {}", of.count(), words(of.labels)); }
  std::string operator()(const RegionOf& of) const { return of.strategy; }
  std::string operator()(const GroupOf& of) const {
    return fmt::format("{} devices{}{}", of.members, of.choices > 1 ? fmt::format(", {} choices", of.choices) : "",
                       of.back ? ", back" : "");
  }
  std::string operator()(const SortSlotsOf& of) const { return of.limit > 0 ? fmt::format("at most {} rows", of.limit) : ""; }
  std::string operator()(const GroupedMatmulOf& of) const { return of.transpose ? "transposed" : ""; }
};

std::string operands(const Node& node) {
  std::vector<std::string> names;
  for (const ValueId operand : node.operands) names.push_back(fmt::format("%{}", operand));
  return names.empty() ? "" : " " + join(names, ", ");
}

void write(const Graph& graph, int depth, std::string& text) {
  const std::string indent(static_cast<std::size_t>(2 * depth), ' ');
  for (const Node& node : graph.nodes) {
    std::vector<std::string> results;
    for (const ValueId result : node.results) {
      const Value& value = graph.value(result);
      results.push_back(fmt::format("%{}: {}{}", result, name_of(value.dtype), moesh::to_string(value.shape)));
    }
    const std::string about = std::visit(Describe{}, node.attributes);
    text += fmt::format("{}{} = {}{}{}{}  # {}\n", indent, join(results, ", "), name_of(node.op), operands(node),
                        about.empty() ? "" : " ", about, node.path);
    if (const Graph* body = body_of(node)) write(*body, depth + 1, text);
  }
  std::vector<std::string> results;
  for (const ValueId result : graph.results) results.push_back(fmt::format("%{}", result));
  text += fmt::format("{}return {}\n", indent, join(results, ", "));
}

}  // namespace

std::string to_text(const Graph& graph) {
  std::string text;
  write(graph, 0, text);
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
