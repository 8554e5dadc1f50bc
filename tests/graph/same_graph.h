// Compares two graphs, however their values are numbered.
#pragma once

#include <bit>
#include <map>
#include <string>

#include <fmt/core.h>

#include "graph/words.h"

namespace moesh::test {

class GraphDifference {
 public:
  // The first difference; empty if the graphs are the same.
  std::string of(const graph::Graph& a, const graph::Graph& b) {
    if (a.nodes.size() != b.nodes.size()) return fmt::format("{} nodes and {}", a.nodes.size(), b.nodes.size());
    for (std::size_t i = 0; i < a.nodes.size(); ++i) {
      const std::string difference = of_nodes(a, b, a.nodes[i], b.nodes[i]);
      if (!difference.empty()) return fmt::format("node {} ({}): {}", i, a.nodes[i].path, difference);
    }
    if (!are_same(a.results, b.results)) return "results";
    return a.result_names == b.result_names ? "" : "names of results";
  }

 private:
  bool are_same(const std::vector<graph::ValueId>& a, const std::vector<graph::ValueId>& b) const {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [&](graph::ValueId x, graph::ValueId y) { return numbers_.at(x) == y; });
  }

  std::string of_nodes(const graph::Graph& in_a, const graph::Graph& in_b, const graph::Node& a, const graph::Node& b) {
    if (a.op != b.op || a.path != b.path || a.tag != b.tag || a.phase != b.phase) return "op, path, tag or phase";
    if (!are_same(a.operands, b.operands)) return "operands";
    if (a.results.size() != b.results.size()) return "results";
    for (std::size_t i = 0; i < a.results.size(); ++i) {
      const graph::Value &x = in_a.value(a.results[i]), &y = in_b.value(b.results[i]);
      if (x.shape != y.shape || x.dtype != y.dtype || x.spec != y.spec) return "a result's shape, type or layout";
      numbers_[a.results[i]] = b.results[i];
    }
    if (a.attributes.index() != b.attributes.index()) return "kind of attributes";
    return std::visit(
        [&]<typename Of>(const Of& of_a) -> std::string {
          if constexpr (std::is_same_v<Of, std::monostate>)
            return "";
          else
            return of_fields(of_a, std::get<Of>(b.attributes));
        },
        a.attributes);
  }

  template <typename Of>
  std::string of_fields(const Of& a, const Of& b) const {
    using graph::fields_of;
    std::string found;
    const auto compare = [&](const auto& field) {
      if (field.name != "saved" && !are_equal(a.*field.member, b.*field.member)) found = field.name;
    };
    std::apply([&](const auto&... field) { (compare(field), ...); }, fields_of(static_cast<const Of*>(nullptr)));
    if constexpr (requires { a.body; }) {
      GraphDifference inner;
      const std::string difference = inner.of(*a.body, *b.body);
      if (!difference.empty()) return "in its body, " + difference;
      if (!inner.are_same(a.saved, b.saved)) return "saved";
    }
    return found;
  }

  template <typename T>
  static bool are_equal(const T& a, const T& b) {
    if constexpr (std::is_same_v<T, double>) {
      return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
    } else if constexpr (std::is_same_v<T, std::shared_ptr<const mesh::Mesh>>) {
      const auto same = [](const mesh::Axis& x, const mesh::Axis& y) {
        return x.name == y.name && x.ici == y.ici && x.dcn == y.dcn;
      };
      return std::equal(a->axes().begin(), a->axes().end(), b->axes().begin(), b->axes().end(), same);
    } else {
      return a == b;
    }
  }

  std::map<graph::ValueId, graph::ValueId> numbers_;  // from a value of graph a to the same value of graph b
};

inline std::string difference_of(const graph::Graph& a, const graph::Graph& b) { return GraphDifference().of(a, b); }

}  // namespace moesh::test
