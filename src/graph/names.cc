// Printed names of enumerators, and look-ups in nodes and graphs.
#include "graph/fields.h"
#include "graph/graph.h"

namespace moesh::graph {

const Graph* body_of(const Node& node) {
  if (const auto* repeat = std::get_if<RepeatOf>(&node.attributes)) return repeat->body.get();
  if (const auto* region = std::get_if<RegionOf>(&node.attributes)) return region->body.get();
  return nullptr;
}

int find_result(const Graph& graph, std::string_view name) {
  for (std::size_t i = 0; i < graph.result_names.size(); ++i) {
    if (graph.result_names[i] == name) return static_cast<int>(i);
  }
  return -1;
}

namespace {

template <typename Word>
std::string_view word(Word of) {
  constexpr auto words = words_of(static_cast<const Word*>(nullptr));
  const auto index = static_cast<std::size_t>(of);
  return index < words.size() ? words[index] : "?";
}

}  // namespace

std::string_view name_of(Unary function) { return word(function); }
std::string_view name_of(Binary function) { return word(function); }
std::string_view name_of(Reduction function) { return word(function); }
std::string_view name_of(Phase phase) { return word(phase); }
std::string_view name_of(ReshardOf::Kind kind) { return word(kind); }
std::string_view name_of(sharding::Dispatch strategy) { return word(strategy); }

}  // namespace moesh::graph
